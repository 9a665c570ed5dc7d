/* Small pictures over the seek bar: what is to be seen at the moment under the pointer. */

/** @typedef {{from: number, to: number, url: string, x: number, y: number, width: number, height: number}} Cue */

const seconds = (text) => text.split(':').reduce((sum, part) => sum * 60 + Number(part), 0);

/**
 * The pictures of a video's WebVTT. @param {string} url @returns {Promise<Cue[]>} times in ms; none where there is no such file
 */
export async function loadSprites(url) {
    const answer = await fetch(url).catch(() => null);
    if (!answer?.ok) {
        return [];
    }
    const folder = url.slice(0, url.lastIndexOf('/') + 1);
    return [...(await answer.text()).matchAll(/([\d:.]+) --> ([\d:.]+)\s+(\S+)#xywh=(\d+),(\d+),(\d+),(\d+)/g)].map(
        ([, from, to, file, x, y, width, height]) => ({from: seconds(from) * 1000, to: seconds(to) * 1000, url: folder + file,
            x: Number(x), y: Number(y), width: Number(width), height: Number(height)}));
}

/**
 * Shows the picture of a moment in an element. @param {HTMLElement} place @param {Cue[]} cues @param {number} ms
 * @param {number} left pixels, of the pointer @param {number} room pixels, of the bar
 */
export function showSprite(place, cues, ms, left, room) {
    const cue = cues.find((one) => one.from <= ms && ms < one.to);
    place.hidden = !cue;
    if (cue) {
        const picture = /** @type {HTMLElement} */ (place.firstElementChild);
        picture.style.setProperty('width', `${cue.width}px`);
        picture.style.setProperty('height', `${cue.height}px`);
        picture.style.setProperty('background-image', `url("${cue.url}")`);
        picture.style.setProperty('background-position', `-${cue.x}px -${cue.y}px`);
        place.style.setProperty('left', `${Math.min(Math.max(left - cue.width / 2, 0), room - cue.width)}px`);
    }
}
