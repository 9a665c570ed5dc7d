/* The picture of a player that one has scrolled past stays in sight, small, while the lines below are read. */

const HEADER = 64; // pixels
const BELOW = 100000; // pixels: what is further down is not scrolled past
const UPPER = '-60%'; // from below: the part of the window that the lines have to reach, so that it covers nothing else

/** @param {HTMLElement} player that was drawn @param {HTMLElement} lines that are read @returns {() => void} ends it */
export function keepInSight(player, lines) {
    const now = {isPast: false, isReading: false};
    const watch = (element, rootMargin, see) => {
        const observer = new IntersectionObserver((seen) => {
            see(seen.at(-1).isIntersecting);
            player.classList.toggle('small', now.isPast && now.isReading);
        }, {rootMargin});
        observer.observe(element);
        return observer;
    };
    const observers = [
        watch(player.querySelector('.line-of-time'), `${-HEADER}px 0px ${BELOW}px`, (isSeen) => { // it stands below the picture, and stays where it is
            now.isPast = !isSeen;
        }),
        watch(lines, `0px 0px ${UPPER}`, (isSeen) => {
            now.isReading = isSeen;
        }),
    ];
    return () => observers.forEach((one) => one.disconnect());
}
