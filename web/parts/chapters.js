/* The parts of a video: where the screen changes altogether, by what stands there largest. Made of the lines that are there anyway. */
import {html, nothing} from '../vendor/lit-html.js';
import {Element} from '../element.js';
import {clock, t} from '../text.js';

const SETTLE_MS = 1000; // in which a screen comes up, line by line
const BEFORE_MS = 3000; // that what was there is looked for in
const STAYS = 0.2; // share of the lines there that may stay: a clock, a title bar
const LINES = 3; // that come at once; of fewer it may be a caption that changes
const SHORTEST_MS = 5000; // a part
const MOST = 40; // parts; of more the shortest are left out
const FEWEST = 3; // parts; fewer are no way through a video
const SURE = 0.6; // confidence of a heading
const LABEL = 60; // characters

/** How many of a sorted list are below a value. @param {number[]} sorted @param {number} value */
function below(sorted, value) {
    let [low, high] = [0, sorted.length];
    while (low < high) {
        const middle = (low + high) >> 1;
        [low, high] = sorted[middle] < value ? [middle + 1, high] : [low, middle];
    }
    return low;
}

/** What stands largest among lines. @param {any[]} lines */
function heading(lines) {
    const fit = lines.filter((line) => line.box && line.confidence >= SURE && /\p{L}{3}/u.test(line.text));
    const [first] = fit.sort((a, b) => b.box.height - a.box.height || a.box.y - b.box.y);
    return first && (first.text.length > LABEL ? `${first.text.slice(0, LABEL - 1)}…` : first.text);
}

/**
 * @param {any[]} lines of a video, as the API has them @returns {{at: number, text: string}[]} the parts by their beginnings, ms; none
 * where the screen does not change altogether
 */
export function chaptersOf(lines) {
    const steady = lines.filter((line) => line.t_end - line.t_start > 2 * SETTLE_MS).sort((a, b) => a.t_start - b.t_start);
    const starts = steady.map((line) => line.t_start);
    const ends = steady.map((line) => line.t_end).sort((a, b) => a - b);
    const shortest = Math.max(SHORTEST_MS, (ends.at(-1) ?? 0) / MOST);
    const found = [];
    for (let n = 0; n < steady.length; n++) {
        const at = starts[n];
        const came = below(starts, at + SETTLE_MS) - n;
        const known = below(starts, at - SETTLE_MS);
        const there = known - below(ends, at - BEFORE_MS);
        const stay = Math.max(known - below(ends, at + SETTLE_MS), 0);
        const isNew = came >= LINES && stay <= STAYS * there && at - (found.at(-1)?.at ?? -shortest) >= shortest;
        const text = isNew && heading(steady.slice(n, n + came));
        if (text) {
            found.push({at, text});
        }
    }
    return found.length < FEWEST ? [] : found;
}

/** Fires cv-seek (detail: ms) when a part is chosen. */
class Chapters extends Element {
    #all = [];
    #current = -1;
    #shown = null; // the element of the part

    /** @param {any[]} lines of the video */
    show(lines) {
        this.#all = chaptersOf(lines);
        this.update();
    }

    /** Marks the part that is shown. @param {number} ms */
    at(ms) {
        const current = this.#all.findLastIndex((one) => one.at <= ms);
        if (current !== this.#current) {
            this.#current = current;
            this.update();
        }
    }

    /** The part that is shown comes into view, where nobody looks through the others. */
    drawn() {
        const list = this.querySelector('ol');
        const now = list?.querySelector('[aria-current=true]')?.parentElement;
        if (now && now !== this.#shown && !list.matches(':hover, :focus-within')) {
            list.scrollLeft = now.offsetLeft - list.offsetLeft;
        }
        this.#shown = now;
    }

    view() {
        return this.#all.length ? html`<h2>${t('chapters')}</h2><ol tabindex="0" aria-label=${t('chapters')}>${this.#all.map((one, n) => html`<li><button
            aria-current=${n === this.#current} @click=${() => this.dispatchEvent(new CustomEvent('cv-seek', {detail: one.at}))}><time>${
            clock(one.at)}</time><span dir="auto">${one.text}</span></button></li>`)}</ol>` : nothing;
    }
}
customElements.define('cv-chapters', Chapters);
