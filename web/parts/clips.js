/* Clips of a video: from a beginning to an end, made by a worker, downloaded from here. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, who} from '../api.js';
import {Element} from '../element.js';
import {listen} from '../live.js';
import {clock, t} from '../text.js';
import {isLeaving, removeLater} from './deletions.js';
import {OPEN} from './states.js';
import {say} from './toast.js';

const FORMATS = ['mp4', 'webm', 'gif', 'jpg'];
const SHOWN = 50;

const spanOf = (clip) => (clip.t_end === null ? clock(clip.t_start, 1) : `${clock(clip.t_start, 1)} – ${clock(clip.t_end, 1)}`);

class Clips extends Element {
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
        this.update();
    }

    put(clip) {
        const others = this.items.filter((one) => one.id !== clip.id);
        this.items = this.items.length === others.length ? [clip, ...others]
            : this.items.map((one) => one.id === clip.id ? clip : one);
        this.update();
    }

    async make() {
        const body = {video_id: this.video, t_start: this.from, padding_ms: 0,
            options: {format: this.format}};
        if (this.format !== 'jpg') {
            body.t_end = this.to;
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
        const gone = removeLater([{id: clip.id, title: `${spanOf(clip)} ${clip.format}`}], '/clips');
        this.update();
        await gone;
        if (this.isConnected) {
            await this.load(this.video);
        }
    }

    card(clip) {
        return html`<li data-id=${clip.id}><span class="badge ${clip.state}">${t(`state.${clip.state}`)}</span>
            <span>${spanOf(clip)} <small>${clip.format}</small></span>
            ${clip.state === 'processing' ? html`<progress max="1" value=${clip.progress} aria-label=${t('progress')}></progress>` : nothing}
            ${clip.error ? html`<small class="fault">${clip.error.message}</small>` : nothing}
            <span class="gap"></span>
            ${clip.url ? html`<a class="button" href=${clip.url} download><cv-icon name="download"></cv-icon>${t('clip.download')}</a>` : nothing}
            ${this.mayMake && !OPEN.includes(clip.state) ? html`<button class="plain" title=${t('clip.remove')} aria-label=${t('clip.remove')}
                @click=${() => this.remove(clip)}><cv-icon name="trash"></cv-icon></button>` : nothing}</li>`;
    }

    view() {
        const items = this.items.filter((clip) => !isLeaving(clip.id));
        const isWhole = this.from !== null && (this.format === 'jpg' || this.to !== null);
        const now = () => this.dispatchEvent(new CustomEvent('cv-mark', {detail: null}));
        const end = (name) => html`<button @click=${() => {
            now();
            this.mark(name, this.now ?? 0);
        }}>${t(`clip.${name}`)} <b>${this[name] === null ? '–' : clock(this[name], 1)}</b></button>`;
        return html`${this.mayMake ? html`<div class="cut" role="group" aria-label=${t('clip')}>
            <cv-icon name="scissors"></cv-icon>${end('from')}${end('to')}
            <select aria-label=${t('clip.format')} @change=${(event) => {
                this.format = event.target.value;
                this.update();
            }}>${FORMATS.map((format) => html`<option>${format}</option>`)}</select>
            ${isWhole && this.format !== 'jpg' ? html`<button @click=${() => this.dispatchEvent(new CustomEvent('cv-preview', {
                detail: {from: this.from, to: this.to}}))}>${t('clip.preview')}</button>` : nothing}
            <button class="main" ?disabled=${!isWhole} @click=${() => this.make()}>${t('clip.make')}</button></div>` : nothing}
            ${items.length ? html`<ul class="clips">${items.map((clip) => this.card(clip))}</ul>` : nothing}`;
    }
}
customElements.define('cv-clips', Clips);
