/* The library: all videos, the newest first, and how far those are that are not ready. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {Element} from '../element.js';
import {Pages, watchEnd} from '../parts/pages.js';
import {card, empty, failure, skeleton} from '../parts/states.js';
import {queried, remembered} from '../router.js';
import {t} from '../text.js';

const STATUSES = ['', 'processing', 'ready', 'failed', 'new', 'duplicate'];
const LOOK_MS = 3000; // between two looks at what is being worked on
const LOOK_SLOWEST_MS = 30000; // while nothing changes
const LOOKED_AT = 8; // videos in view that are looked at each time

class LibraryScreen extends Element {
    stages = new Map(); // video → what is done with it
    wait = LOOK_MS;

    connectedCallback() {
        this.end = watchEnd(() => this.pages.items.length && this.pages.more());
        this.onAddress();
        this.timer = setTimeout(() => this.look(), 0);
    }

    disconnectedCallback() {
        clearTimeout(this.timer);
        this.end.disconnect();
        this.pages.stop();
    }

    onAddress(isRepeated = false) {
        const status = queried('status');
        document.title = `${t('nav.library')} · cortana`;
        if (isRepeated) {
            this.pages.again();
        } else if (this.status !== status) {
            this.status = status;
            this.isRestored = false;
            this.pages?.stop();
            this.pages = new Pages('/videos', {status, limit: 48}, () => this.update());
            this.pages.start();
        }
        this.update();
    }

    /** Looks at the videos in view that are worked on; less often while nothing changes. */
    async look() {
        const before = JSON.stringify([...this.stages]);
        const open = document.hidden ? [] : [...this.querySelectorAll('.card')].filter((one) => {
            const box = one.getBoundingClientRect();
            return ['new', 'processing'].includes(one.dataset.status) && box.bottom > 0 && box.top < innerHeight;
        }).slice(0, LOOKED_AT);
        await Promise.all(open.map(({dataset: {id}}) => this.lookAt(id).catch(() => null)));
        const isSame = before === JSON.stringify([...this.stages]);
        this.wait = isSame ? Math.min(this.wait * 1.5, LOOK_SLOWEST_MS) : LOOK_MS;
        if (!isSame) {
            this.update();
        }
        if (this.isConnected) {
            this.timer = setTimeout(() => this.look(), this.wait);
        }
    }

    async lookAt(id) {
        const {items} = await ask(`/videos/${id}/stages`);
        const open = items.find((stage) => stage.status === 'processing') ??
            items.findLast((stage) => stage.status !== 'done');
        if (open) {
            this.stages.set(id, {job_type: open.job_type, status: open.status, progress: open.progress,
                retry_at: open.retry_at});
            return;
        }
        const video = await ask(`/videos/${id}`);
        this.pages.items = this.pages.items.map((one) => one.id === id ? video : one);
        this.stages.set(id, {job_type: video.status, status: 'done', progress: 1});
    }

    drawn() {
        const last = this.querySelector('.end');
        this.end.disconnect();
        if (last) {
            this.end.observe(last);
        }
        if (!this.isRestored && this.pages.isAsked && !this.pages.isLoading) {
            this.isRestored = true;
            if (remembered().y) {
                scrollTo(0, remembered().y);
            }
        }
    }

    view() {
        const {items, isAsked, isLoading, next, problem} = this.pages;
        return html`<div class="page"><div class="heading"><h1>${t('nav.library')}</h1></div>
            <nav class="tabs" aria-label=${t('library.filter')}>${STATUSES.map((status) => html`<a
                href=${status ? `/videos?status=${status}` : '/videos'}
                aria-current=${status === this.status ? 'true' : nothing}>${t(`status.${status || 'all'}`)}</a>`)}</nav>
            <h2 class="unseen">${t(`status.${this.status || 'all'}`)}</h2>
            <div class="cards" data-state=${isAsked ? 'shown' : 'loading'}>
            ${items.map((video) => card(video, this.stages.get(video.id)))}</div>
            ${problem ? failure(problem, () => this.pages.more()) : nothing}
            ${isAsked && !items.length && !problem ? empty('film', t(this.status ? 'library.none' : 'library.empty'),
                t(this.status ? 'library.none.text' : 'library.empty.text')) : nothing}
            ${isLoading ? skeleton('card', items.length ? 4 : 12) : nothing}
            ${next && !isLoading && !problem ? html`<p class="end"><button @click=${() => this.pages.more()}>${t('more')}
                </button></p>` : nothing}</div>`;
    }
}
customElements.define('screen-library', LibraryScreen);
