/* The clip that is to be made, on the player's line of time, with two ends that follow the pointer. */
import {html, nothing} from '../vendor/lit-html.js';

/** @param {any} player @param {PointerEvent} event @param {'from' | 'to'} end */
function drag(player, event, end) {
    const handle = /** @type {HTMLElement} */ (event.target);
    const line = handle.closest('.line-of-time').getBoundingClientRect();
    event.preventDefault();
    handle.setPointerCapture(event.pointerId);
    handle.onpointermove = ({clientX}) => {
        const share = Math.min(Math.max((clientX - line.left) / line.width, 0), 1);
        player.dispatchEvent(new CustomEvent('cv-drag', {detail: {end, ms: share * (player.file.duration_ms ?? 0)}}));
    };
    handle.onpointerup = () => {
        handle.onpointermove = null;
    };
}

/** @param {any} player with its range {from, to}, ms, or null */
export const rangeOnLine = (player) => (player.range ? html`<div class="range" aria-hidden="true"><i @pointerdown=${(event) => drag(player, event, 'from')}></i><i
    @pointerdown=${(event) => drag(player, event, 'to')}></i></div>` : nothing);

/** Puts it where its times are, when it was drawn. @param {any} player */
export function placeRange(player) {
    const place = player.querySelector('.range');
    const length = player.file?.duration_ms || 1;
    place?.style.setProperty('left', `${100 * player.range.from / length}%`);
    place?.style.setProperty('width', `${100 * (player.range.to - player.range.from) / length}%`);
}
