/* What is on the line of time of the player: where text and hits are, and the clip that is to be made, with two ends that follow the pointer. */
import {html, nothing} from '../vendor/lit-html.js';

const DENSITY_PARTS = 200; // of the strip that shows where text is

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

/** Where text is, as heights of bars, and where the hits are. @param {any} player */
export function strip(player) {
    const length = player.last - player.first || 1;
    const place = (line) => Math.max(line.t_start - player.first, 0) / length;
    const parts = new Array(DENSITY_PARTS).fill(0);
    for (const line of player.lines) {
        parts[Math.min(DENSITY_PARTS - 1, Math.floor(place(line) * DENSITY_PARTS))]++;
    }
    const most = Math.max(...parts, 1);
    const path = parts.map((number, n) => number ? `M${n * 5 + 2.5} 24v${-20 * number / most}` : '').join('');
    const hits = player.lines.filter((line) => player.hits.has(line.id))
        .map((line) => `M${(place(line) * 1000).toFixed(1)} 2v22`).join('');
    return html`<svg class="strip" viewBox="0 0 1000 26" preserveAspectRatio="none" aria-hidden="true">
        <path class="density" d=${path} /><path class="hits" d=${hits} /></svg>`;
}
