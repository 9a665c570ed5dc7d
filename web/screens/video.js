/* A video: what was to be read in it, and when. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {Element} from '../element.js';
import {failure, skeleton, titleOf} from '../parts/states.js';
import {queried} from '../router.js';
import {clock, moment, size, t} from '../text.js';
import '../parts/transcript.js';

const HITS = 100; // of the search that led here

class VideoScreen extends Element {
    connectedCallback() {
        this.id_ = this.dataset.id;
        this.start();
    }

    onAddress(isRepeated = false) {
        if (isRepeated) {
            this.start();
        } else {
            this.seekToAddress();
        }
    }

    async start() {
        this.problem = null;
        this.update();
        try {
            this.video = await ask(`/videos/${this.id_}`);
            document.title = `${titleOf(this.video)} · cortana`;
        } catch (problem) {
            this.problem = problem;
            this.update();
            return;
        }
        this.update();
        await Promise.resolve();
        this.transcript = this.querySelector('cv-transcript');
        await Promise.all([this.transcript.load(this.id_), this.findHits()]);
        this.transcript.update();
        this.seekToAddress();
    }

    async findHits() {
        const query = queried('q');
        if (query) {
            const found = await ask('/search', {query: {q: query, video: this.id_, limit: HITS}}).catch(() => ({items: []}));
            this.transcript.hits = new Map(found.items.map((hit) => [hit.segment_id, hit.snippet]));
        }
    }

    seekToAddress() {
        const at = Number(queried('t'));
        if (queried('t') && Number.isFinite(at)) {
            this.transcript.at(Math.round(at * 1000));
        }
    }

    view() {
        const {video, problem} = this;
        if (problem) {
            return html`<div class="page">${failure(problem, () => this.start())}</div>`;
        }
        if (!video) {
            return html`<div class="page">${skeleton('row', 4)}</div>`;
        }
        return html`<div class="page narrow"><div class="heading"><h1 dir="auto">${titleOf(video)}</h1></div>
            <p class="faint facts">${video.status === 'ready' ? nothing
                : html`<span class="badge ${video.status}">${t(`status.${video.status}`)}</span>`}
                ${video.duration_ms ? html`<span>${clock(video.duration_ms)}</span>` : nothing}
                ${video.resolution ? html`<span>${video.resolution}</span>` : nothing}
                <span>${size(video.size)}</span><span>${moment(video.created_at)}</span></p>
            <cv-transcript @cv-seek=${(event) => this.transcript.at(event.detail)}></cv-transcript></div>`;
    }
}
customElements.define('screen-video', VideoScreen);
