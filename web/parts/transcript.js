/* The lines of a video by time. Follows the playback, until one scrolls. */
import {html, noChange, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {Element, whenQuiet} from '../element.js';
import {atTime, clock, momentIn, t} from '../text.js';
import {empty, failure, skeleton} from './states.js';
import {copy} from './toast.js';

const PAGE = 5000; // lines asked for at once
const PART = 100; // lines that are laid out together
const UNSURE = 0.8;
const OWN_SCROLL_MS = 700; // how long a scroll that we began may take
const TYPING_MS = 120;

/** The pieces of a text, of which those are hits that are the wanted one. */
function marked(text, wanted) {
    const at = wanted ? text.toLowerCase().indexOf(wanted) : -1;
    return at < 0 ? text : html`${text.slice(0, at)}<mark>${text.slice(at, at + wanted.length)}</mark>${
        text.slice(at + wanted.length)}`;
}

/** Fires cv-seek (detail: ms) when a line is chosen, cv-lines when they have come. */
export class Transcript extends Element {
    lines = null;
    hits = new Map(); // segment → snippet, of the search that led here; empty: of a line of a message
    wanted = '';
    isFollowing = true;
    recordedAt = null; // when the recording began; null: not known
    now = -1; // ms
    #ownScrollUntil = 0;
    #drawn = []; // what the lines were drawn of
    /** @type {Map<string, Element> | null} */ #rows = null; // by their lines; null: they were drawn anew
    #current = []; // rows of what is to be read now
    #newest = null; // the line that became current last

    /** @param {string} video */
    async load(video) {
        this.video = video;
        this.problem = null;
        this.update();
        try {
            let lines = [];
            let next = null;
            do {
                const page = await ask(`/videos/${video}/segments`, {query: {tracks: true, limit: PAGE, cursor: next}});
                lines = lines.concat(page.items);
                next = page.next;
                this.lines = lines;
                this.update();
            } while (next && this.isConnected);
            this.dispatchEvent(new CustomEvent('cv-lines', {detail: lines}));
        } catch (problem) {
            this.problem = problem;
        }
        this.update();
    }

    connectedCallback() {
        this.search = whenQuiet((text) => {
            this.wanted = text.trim().toLowerCase();
            this.update();
        }, TYPING_MS);
        this.update();
    }

    /** Marks what is to be read at this time. @param {number} ms */
    at(ms) {
        this.now = ms;
        if (!this.#rows) {
            this.#rows = new Map([...this.querySelectorAll('li[data-id]')].map((row) => [row.dataset.id, row]));
            this.#current = [...this.querySelectorAll('li.now')];
        }
        const rows = (this.lines ?? []).filter((line) => line.t_start <= ms && ms < line.t_end).map((line) => this.#rows.get(String(line.id))).filter(Boolean);
        this.#current.forEach((row) => row.classList.toggle('now', rows.includes(row)));
        rows.forEach((row) => row.classList.add('now'));
        this.#current = rows;
        const newest = rows.at(-1); // what stands on screen for long began long ago
        if (newest && newest !== this.#newest) {
            this.#newest = newest;
            this.follow();
        }
    }

    /** Scrolls its own list, never the page. */
    follow(isWanted = this.isFollowing) {
        const list = this.querySelector('.lines');
        if (!isWanted || !this.#newest || !list) {
            return;
        }
        this.#ownScrollUntil = performance.now() + OWN_SCROLL_MS;
        const row = this.#newest.getBoundingClientRect();
        const frame = list.getBoundingClientRect();
        list.scrollTop += row.top - frame.top - frame.height / 3;
    }

    onScroll() {
        if (performance.now() > this.#ownScrollUntil && this.isFollowing) {
            this.isFollowing = false;
            this.update();
        }
    }

    goOn() {
        this.isFollowing = true;
        this.follow();
        this.update();
    }

    drawn() {
        if (this.now >= 0) {
            this.at(this.now);
        }
    }

    line(line) {
        const snippet = this.hits.get(line.id);
        const text = snippet?.length && !this.wanted
            ? snippet.map((part) => part.hit ? html`<mark>${part.text}</mark>` : part.text)
            : marked(line.text, this.wanted);
        return html`<li data-start=${line.t_start} data-end=${line.t_end} data-id=${line.id} class=${snippet ? 'found' : ''} @click=${() => !getSelection().toString() && this.dispatchEvent(new CustomEvent('cv-seek', {detail: line.t_start}))}>
            <button class="at" @pointerenter=${(event) => this.showTime(event.target, line)} @focus=${(event) => this.showTime(event.target, line)}>${
                clock(line.t_start)}</button><span class="line" dir="auto">${text}</span>
            ${line.source === 'screen' ? nothing : html`<small class="badge">${t(`source.${line.source}`)}</small>`}
            ${line.confidence < UNSURE ? html`<small class="badge unsure">${t('unsure')}</small>` : nothing}</li>`;
    }

    /** The time of day of a line, in the reader's zone; made when it is asked for, because a format for each of thousands is slow. */
    showTime(button, line) {
        if (this.recordedAt) {
            button.title = momentIn(atTime(this.recordedAt, line.t_start).toISOString(), null);
        }
    }

    copyAll(lines) {
        const ofDay = (line) => this.recordedAt ? `${atTime(this.recordedAt, line.t_start).toISOString()}\t` : '';
        copy(lines.map((line) => `${clock(line.t_start)}\t${ofDay(line)}${line.text}`).join('\n'), t('transcript.copied', {n: lines.length}));
    }

    /** The lines in parts, each of which the browser lays out when it comes into view; drawn when they are others. */
    parts(shown) {
        const drawn = [this.lines, this.wanted, this.hits];
        if (drawn.every((one, n) => one === this.#drawn[n])) {
            return noChange;
        }
        this.#drawn = drawn;
        this.#rows = null;
        return Array.from({length: Math.ceil(shown.length / PART)}, (_, n) => html`<ol class="part">${
            shown.slice(n * PART, (n + 1) * PART).map((line) => this.line(line))}</ol>`);
    }

    view() {
        if (this.problem || !this.lines?.length) {
            this.#drawn = [];
        }
        if (this.problem) {
            return failure(this.problem, () => this.load(this.video));
        }
        if (!this.lines) {
            return skeleton('row', 5);
        }
        if (!this.lines.length) {
            return empty('boxes', t('transcript.none'), t('transcript.none.text'));
        }
        const shown = this.wanted ? this.lines.filter((line) => line.text.toLowerCase().includes(this.wanted)) : this.lines;
        return html`<div class="inside"><input type="search" aria-label=${t('transcript.search')}
                placeholder=${t('transcript.search')} @input=${(event) => this.search(event.target.value)}>
            <button class="plain" title=${t('transcript.copy')} aria-label=${t('transcript.copy')}
                @click=${() => this.copyAll(shown)}><cv-icon name="copy"></cv-icon></button></div>
            <p class="faint" role="status">${t('hits', {n: shown.length})}</p>
            <div class="lines" @scroll=${() => this.onScroll()} tabindex="0" role="region" aria-label=${t('transcript')}>
                ${this.parts(shown)}</div>
            ${this.isFollowing || this.now < 0 ? nothing : html`<button class="follow" @click=${() => this.goOn()}>
                <cv-icon name="down"></cv-icon>${t('transcript.follow')}</button>`}`;
    }
}
customElements.define('cv-transcript', Transcript);
