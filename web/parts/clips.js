/* Clips of a video: from a beginning to an end, made by a worker, downloaded from here. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, who} from '../api.js';
import {Element} from '../element.js';
import {listen} from '../live.js';
import {clock, readClock, t} from '../text.js';
import {isLeaving, removeLater} from './deletions.js';
import {share} from './share.js';
import {OPEN} from './states.js';
import {say} from './toast.js';
import './covers.js';
import './crop.js';

const FORMATS = ['mp4', 'webm', 'gif', 'jpg'];
const HEIGHTS = [1080, 720, 480]; // that a picture may be scaled down to
const LENGTH_MS = 5000; // of a clip whose ends nobody has said
const SHOWN = 50;

const spanOf = (clip) => (clip.t_end === null ? clock(clip.t_start, 1) : `${clock(clip.t_start, 1)} – ${clock(clip.t_end, 1)}`);

/** Fires cv-range (detail: {from, to} or null) when the ends have changed. */
class Clips extends Element {
    isOpen = false;
    height = ''; // '': the original's
    end = 0; // of the video, ms
    resolution = ''; // of its original
    /** @type {() => HTMLElement | null} where its picture is */ stage = () => null;
    items = [];
    from = null; // ms
    to = null;
    format = 'mp4';
    mayMake = false;

    /** @param {string} video */
    async load(video) {
        this.video = video;
        const me = await who().catch(() => null);
        this.mayMake = !!me && me.role !== 'viewer';
        const found = await ask('/clips', {query: {video, limit: SHOWN}}).catch(() => ({items: []}));
        this.items = found.items.filter((clip) => !clip.removed_at);
        this.update();
        this.live ??= listen([], (kind, data) => this.heard(kind, data));
        this.watch();
    }

    disconnectedCallback() {
        this.live?.stop();
    }

    /** Listens to the jobs of the clips that are not over. */
    watch() {
        this.live.topics(this.items.filter((clip) => OPEN.includes(clip.state)).map((clip) => `job:${clip.job_id}`));
    }

    async heard(kind, data) {
        const clip = this.items.find((one) => one.job_id === data.id);
        if (kind === 'reset') {
            await this.load(this.video);
        } else if (clip && OPEN.includes(data.state)) {
            this.put({...clip, state: data.state, progress: data.progress, error: data.error});
        } else if (clip) { // over: where it is downloaded from is told by the clip alone
            this.put(await ask(`/clips/${clip.id}`).catch(() => ({...clip, state: data.state, error: data.error})));
            this.watch();
        }
    }

    /** @param {'from' | 'to'} end @param {number} ms */
    mark(end, ms) {
        this[end] = Math.round(ms);
        if (this.to !== null && this.from !== null && this.to <= this.from) {
            this[end === 'from' ? 'to' : 'from'] = null;
        }
        this.isOpen = true;
        this.tellRange();
        this.update();
    }

    tellRange() {
        this.querySelector('cv-covers')?.lookSoon();
        this.dispatchEvent(new CustomEvent('cv-range', {detail: this.isOpen && this.from !== null ? {from: this.from, to: this.to ?? this.from} : null}));
    }

    /**
     * Opens the panel with a clip from here on, or goes to what is marked, so that Enter makes it; or closes it.
     * @param {number} ms @param {string} [format] that is wanted
     */
    async toggle(ms, format = this.format) {
        this.isOpen = !this.isOpen || format !== this.format || !this.contains(document.activeElement);
        this.format = format;
        if (this.isOpen && this.from === null) {
            this.from = Math.round(ms);
            this.to = Math.round(Math.min(ms + LENGTH_MS, this.end || Infinity));
        }
        this.tellRange();
        this.update();
        await Promise.resolve();
        this.querySelector('.cut button.main')?.focus();
    }

    /** An end that was typed. */
    type(end, text) {
        const ms = readClock(text);
        if (ms !== null) {
            this.mark(end, Math.min(ms, this.end || ms));
        }
        this.update();
    }

    put(clip) {
        const others = this.items.filter((one) => one.id !== clip.id);
        this.items = this.items.length === others.length ? [clip, ...others]
            : this.items.map((one) => one.id === clip.id ? clip : one);
        this.update();
    }

    get isWhole() {
        return this.from !== null && (this.format === 'jpg' || this.to !== null);
    }

    /** What is asked for, but for what is covered; null: an end is missing. */
    request() {
        const crop = this.querySelector('cv-crop')?.area;
        return this.isWhole ? {video_id: this.video, t_start: this.from, padding_ms: 0, ...this.format !== 'jpg' && {t_end: this.to},
            options: {format: this.format, ...crop && {crop}, ...this.height && {max_height: Number(this.height)}}} : null;
    }

    async make() {
        const body = this.request();
        const {redact} = this.querySelector('cv-covers');
        if (redact.length) {
            body.options.redact = redact;
        }
        try {
            const {id} = await ask('/clips', {method: 'POST', body});
            const clip = await ask(`/clips/${id}`);
            this.put(clip);
            this.watch();
        } catch (problem) {
            say(problem.text, 'bad');
        }
    }

    async remove(clip) {
        const gone = removeLater([{id: clip.id, title: clip.parts ? clip.name : `${spanOf(clip)} ${clip.format}`}], '/clips');
        this.update();
        await gone;
        if (this.isConnected) {
            await this.load(this.video);
        }
    }

    card(clip) {
        return html`<li data-id=${clip.id}><span class="badge ${clip.state}">${t(`state.${clip.state}`)}</span>
            <span>${clip.parts ? clip.name : spanOf(clip)} <small>${clip.format}</small></span>
            ${clip.state === 'processing' ? html`<progress max="1" value=${clip.progress} aria-label=${t('progress')}></progress>` : nothing}
            ${clip.error ? html`<small class="fault">${clip.error.message}</small>` : nothing}
            <span class="gap"></span>
            ${clip.url ? html`<a class="button" href=${clip.url} download><cv-icon name="download"></cv-icon>${t('clip.download')}</a>` : nothing}
            ${this.mayMake && clip.url ? html`<button class="plain" title=${t('share')} aria-label=${t('share')}
                @click=${() => share({kind: 'clip', id: clip.id, video: this.video, title: clip.name ?? spanOf(clip)})}><cv-icon name="share"></cv-icon></button>` : nothing}
            ${this.mayMake && !OPEN.includes(clip.state) ? html`<button class="plain" title=${t('clip.remove')} aria-label=${t('clip.remove')}
                @click=${() => this.remove(clip)}><cv-icon name="trash"></cv-icon></button>` : nothing}</li>`;
    }

    view() {
        const items = this.items.filter((clip) => !isLeaving(clip.id));
        const choice = (name, options) => html`<label>${t(`clip.${name}`)} <select @change=${(event) => {
            this[name] = event.target.value;
            this.update();
        }}>${options.map(([value, text]) => html`<option value=${value} .selected=${value === String(this[name])}>${text}</option>`)}</select></label>`;
        const end = (name) => html`<label>${t(`clip.${name}`)} <input inputmode="decimal" autocomplete="off" .value=${this[name] === null ? '' : clock(this[name], 1)}
            ?disabled=${name === 'to' && this.format === 'jpg'} @change=${(event) => this.type(name, event.target.value)}></label>`;
        return html`${this.mayMake ? html`<p class="actions"><button aria-expanded=${this.isOpen} title="c"
                @click=${() => this.dispatchEvent(new CustomEvent('cv-clip'))}><cv-icon name="scissors"></cv-icon>${t('clip')}</button></p>` : nothing}
            ${this.mayMake && this.isOpen ? html`<form class="cut" aria-label=${t('clip')} @submit=${(event) => {
                event.preventDefault();
                this.make();
            }}>${end('from')}${end('to')}${choice('format', FORMATS.map((one) => [one, one]))}
            ${choice('height', [['', t('clip.height.original')], ...HEIGHTS.map((one) => [String(one), `${one}p`])])}
            ${this.isWhole && this.format !== 'jpg' ? html`<button type="button" @click=${() => this.dispatchEvent(new CustomEvent('cv-preview', {
                detail: {from: this.from, to: this.to}}))}>${t('clip.preview')}</button>` : nothing}
            <button class="main" ?disabled=${!this.isWhole}>${t('clip.make')}</button>
            <cv-crop .resolution=${this.resolution} .stage=${this.stage} @cv-crop=${() => this.querySelector('cv-covers').lookSoon()}></cv-crop>
            <cv-covers .request=${() => this.request()}></cv-covers></form>` : nothing}
            ${items.length ? html`<ul class="clips">${items.map((clip) => this.card(clip))}</ul>` : nothing}`;
    }
}
customElements.define('cv-clips', Clips);
