/* What was found in one video: the picture of the best line with a box around it, where in the video the lines are, and the lines. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, who} from '../api.js';
import {Element} from '../element.js';
import {ago, clock, language, languageName, moment, momentIn, t} from '../text.js';
import {menuButton, titleOf} from './states.js';
import {say} from './toast.js';

const UNSURE = 0.8; // confidence below which a reading is called unsure
const CROP_HEIGHT = 30; // pixels, of an unsure line's picture
const SHOWN = 3; // lines, before "more"
const MOST = 200; // lines of a video that are listed
const QUOTE_SECONDS = 30; // in which a picture is made, unless others wait for the worker
const BEFORE = 60; // characters of a line that are shown before its first mark

/** A long line from a little before its first mark. @param {{text: string, hit: boolean}[]} snippet */
export function windowOf(snippet) {
    const [first, ...rest] = snippet;
    return first && !first.hit && rest.length && first.text.length > BEFORE * 2
        ? [{text: `… ${first.text.slice(-BEFORE).replace(/^\S*\s/, '')}`, hit: false}, ...rest] : snippet;
}

/** Makes a picture of a line with its source below it, and gives it to the reader. @param {{segment_id: string}} hit */
async function quote(hit) {
    say(t('quote.under_way'));
    try {
        const {id} = await ask(`/segments/${hit.segment_id}/quote`, {method: 'POST', body: {site: location.origin}});
        const made = await ask(`/clips/${id}`, {query: {wait: QUOTE_SECONDS}});
        if (made.url) {
            Object.assign(document.createElement('a'), {href: made.url, download: made.name}).click();
        } else {
            say(made.error?.message ?? t('quote.later'), made.error ? 'bad' : 'good');
        }
    } catch (problem) {
        say(problem.text, 'bad');
    }
}

class Result extends Element {
    #group = null;
    all = null; // lines, when all are shown
    shown = null; // the line whose picture is shown

    /** @param {any} group as GET /search has it with group=video */
    set group(group) {
        if (group !== this.#group) {
            this.#group = group;
            this.all = null;
            this.shown = group.items[0];
            this.update();
        }
    }

    mayQuote = false;

    /** Of the search. @type {Record<string, any>} */ wishes = {};

    async connectedCallback() {
        super.connectedCallback();
        this.mayQuote = (await who().catch(() => ({role: 'viewer'}))).role !== 'viewer';
        this.update();
    }

    url(hit) {
        return `/videos/${hit.video_id}?t=${(hit.t_start / 1000).toFixed(3)}&q=${encodeURIComponent(this.wishes.q)}`;
    }

    show(hit) {
        if (hit.frame_url && hit !== this.shown) {
            this.shown = hit;
            this.update();
        }
    }

    async more() {
        const {group: _, facets: __, ...wishes} = this.wishes;
        try {
            const {items} = await ask('/search', {query: {...wishes, video: this.#group.video.id, limit: MOST}});
            this.all = items;
        } catch (problem) {
            say(problem.text, 'bad');
        }
        this.update();
    }

    /** The part of the picture where the line is fills the frame, with a box around the line. @param {HTMLImageElement} picture */
    place(picture) {
        if (!this.shown.frame_box) {
            return; // the line was said
        }
        const {x, y, width, height} = this.shown.frame_box;
        const box = this.querySelector('.box');
        const {clientWidth: w, clientHeight: h} = picture;
        const scale = Math.max(w / picture.naturalWidth, h / picture.naturalHeight);
        const cut = (at, length, room, whole) => Math.min(Math.max((at + length / 2) * scale - room / 2, 0), whole * scale - room);
        const [left, top] = [cut(x, width, w, picture.naturalWidth), cut(y, height, h, picture.naturalHeight)];
        picture.style.setProperty('object-position', `${-left}px ${-top}px`);
        for (const [name, value] of [['left', (x * scale - left) / w], ['top', (y * scale - top) / h], ['width', width * scale / w], ['height', height * scale / h]]) {
            box.style.setProperty(name, `${100 * value}%`);
        }
        box.hidden = false;
    }

    frame({video}) {
        const {shown} = this;
        return html`<a class="frame" href=${this.url(shown)} tabindex="-1" aria-hidden="true">${shown.frame_url && shown !== this.broken
            ? html`<img src=${shown.frame_url} alt="" loading="lazy" decoding="async" @load=${(event) => this.place(event.target)} @error=${() => {
                this.broken = shown;
                this.update();
            }}><span class="box" hidden></span>`
            : html`<cv-poster data-video=${video.id} data-url=${video.poster_url ?? ''}></cv-poster>`}${
            video.duration_ms ? html`<span class="length">${clock(video.duration_ms)}</span>` : nothing}</a>`;
    }

    /** Where in the video the lines are. */
    strip({video, starts}) {
        const path = video.duration_ms ? starts.map((start) => `M${(start / video.duration_ms * 1000).toFixed(1)} 0v10`).join('') : '';
        return path ? html`<svg class="where-strip" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true"><path d=${path} /></svg>` : nothing;
    }

    /** An unsure line as it looked, whose place is kept until it has come. */
    crop(hit) {
        const {width = 0, height = 0} = hit.box ?? {};
        const share = Math.min(1, CROP_HEIGHT / height);
        return html`<img class="crop" src=${hit.crop_url} alt="" loading="lazy" decoding="async" width=${Math.round(width * share) || nothing}
            height=${Math.round(height * share) || nothing} @error=${(event) => event.target.remove()}>`;
    }

    hit(hit) {
        const isUnsure = hit.confidence < UNSURE;
        const isForeign = hit.language && !hit.language.startsWith({en: 'eng', de: 'deu'}[language]);
        return html`<li><a class="hit" href=${this.url(hit)} data-segment=${hit.segment_id}
            @mouseenter=${() => this.show(hit)} @focus=${() => this.show(hit)}><time title=${hit.shown_at ? momentIn(hit.shown_at, null) : nothing}>${clock(hit.t_start)}</time>
            <span>${isUnsure && hit.crop_url ? this.crop(hit) : nothing}<span class="line" dir="auto">${windowOf(hit.snippet).map((part) => (part.hit
                ? html`<mark>${part.text}</mark>` : part.text))}</span></span><span class="marks">
                ${hit.sources.filter((source) => source !== 'screen').map((source) => html`<small class="badge">${t(`source.${source}`)}</small>`)}
                ${isUnsure ? html`<small class="badge unsure">${t('unsure')}</small>` : nothing}
                ${hit.match === 'fuzzy' ? html`<small class="badge">${t('match.fuzzy')}</small>` : nothing}
                ${isForeign ? html`<small class="faint">${languageName(hit.language)}</small>` : nothing}</span></a>${this.mayQuote
                ? html`<button class="plain quote" title=${t('quote')} aria-label="${t('quote')}: ${hit.snippet.map((part) => part.text).join('')}" @click=${() => quote(hit)}><cv-icon name="picture"></cv-icon></button>` : nothing}</li>`;
    }

    view() {
        const group = this.#group;
        if (!group) {
            return nothing;
        }
        const {video, hits} = group;
        const items = this.all ?? group.items.slice(0, SHOWN);
        return html`<section class="group">${this.frame(group)}<div class="found-lines"><h2><a
                href="/videos/${video.id}?q=${encodeURIComponent(this.wishes.q)}" dir="auto">${titleOf(video)}</a> <small>${t('hits', {n: hits})}</small></h2>${menuButton(video)}
            <p class="faint"><time datetime=${video.created_at} title=${moment(video.created_at)}>${ago(video.created_at)}</time></p>
            ${this.strip(group)}<ul>${items.map((hit) => this.hit(hit))}</ul>
            ${!this.all && hits > items.length ? html`<button class="plain more" @click=${() => this.more()}>${t('hits.more', {n: hits - items.length})}</button>`
                : nothing}</div></section>`;
    }
}
customElements.define('cv-result', Result);
