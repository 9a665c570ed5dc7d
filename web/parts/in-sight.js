/* The picture of a player that one has scrolled past stays in sight, small, while the lines below are read. */

const HEADER = 64; // pixels
const BELOW = 100000; // pixels: what is further down is not scrolled past

/** @param {HTMLElement} player that was drawn @returns {() => void} ends it */
export function keepInSight(player) {
    const observer = new IntersectionObserver((seen) => player.classList.toggle('small', !seen.at(-1).isIntersecting), {rootMargin: `${-HEADER}px 0px ${BELOW}px`});
    observer.observe(player.querySelector('.line-of-time')); // it stands below the picture, and stays where it is
    return () => observer.disconnect();
}
