/* The library: all videos, the newest first, and how far those are that are not ready. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, who} from '../api.js';
import {Element, whenQuiet} from '../element.js';
import {listen} from '../live.js';
import {Pages, watchEnd} from '../parts/pages.js';
import {card, empty, failure, OPEN, skeleton} from '../parts/states.js';
import {queried, remembered} from '../router.js';
import {t} from '../text.js';
import '../parts/uploads.js';

const STATUSES = ['', 'processing', 'ready', 'failed', 'new', 'duplicate'];
const WATCHED = 30; // running jobs whose progress is followed
const SETTLE_MS = 300; // before a video whose jobs change is asked for again

class LibraryScreen extends Element {
    stages = new Map(); // video → what is done with it
    unsure = new Set(); // videos that are to be asked for again
    lookLater = whenQuiet(() => this.lookAgain(), SETTLE_MS);

    connectedCallback() {
        this.end = watchEnd(() => this.pages.items.length && this.pages.more());
        this.live = listen(['tenant'], (kind, data) => this.heard(kind, data));
        this.onAddress();
        who().then((me) => {
            this.mayUpload = me.role !== 'viewer' && !!me.user_id;
            this.update();
        }, () => null); // the list says what is wrong
    }

    disconnectedCallback() {
        this.live.stop();
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

    /** Something has changed, here or elsewhere. */
    heard(kind, data) {
        if (kind === 'reset') {
            this.pages.again();
        } else if (kind === 'job' && data.video_id) {
            const isShown = this.pages.items.some((one) => one.id === data.video_id);
            if (isShown) {
                this.see(data.video_id, data.job_type, data);
            }
            if (isShown ? !OPEN.includes(data.state) : data.state === 'queued') {
                this.unsure.add(data.video_id);
                this.lookLater();
            }
        } else if (kind === 'video') {
            this.put(data);
        }
    }

    /** Asks for the videos whose jobs are over or have just begun: their state may be another one. */
    async lookAgain() {
        const ids = [...this.unsure].slice(0, WATCHED);
        this.unsure.clear();
        for (const id of ids) {
            this.put(await ask(`/videos/${id}`).catch(({status}) => ({id, status: status === 404 ? 'gone' : ''})));
        }
    }

    see(id, type, {id: job, state, progress, scheduled_for: retryAt}) {
        const before = this.stages.get(id);
        if (state === 'processing' || state === 'failed' || before?.job === job || before?.status !== 'processing') {
            this.stages.set(id, {job, job_type: type, status: state, progress, retry_at: state === 'retry' ? retryAt : null});
            this.update();
        }
    }

    put(video) {
        const {items} = this.pages;
        const isWanted = !this.status || this.status === video.status;
        if (!video.status) {
            return;
        }
        if (video.status === 'gone') {
            this.pages.items = items.filter((one) => one.id !== video.id);
        } else if (items.some((one) => one.id === video.id)) {
            this.pages.items = items.map((one) => one.id === video.id ? video : one);
        } else if (isWanted && this.pages.isAsked && (!items.length || video.created_at > items[0].created_at)) {
            this.pages.items = [video, ...items];
        }
        this.update();
    }

    /** Asks once for the stages of a video that is being worked on; after that, events tell. */
    async lookAt(id) {
        this.stages.set(id, null);
        const {items} = await ask(`/videos/${id}/stages`);
        const open = items.find((stage) => stage.status === 'processing') ??
            items.findLast((stage) => stage.status !== 'done');
        if (open && !this.stages.get(id)) {
            this.stages.set(id, {...open, job: open.job_id});
            this.update();
        }
    }

    follow() {
        const seen = [...this.querySelectorAll('.card')].filter((one) => {
            const box = one.getBoundingClientRect();
            return ['new', 'processing'].includes(one.dataset.status) && box.bottom > 0 && box.top < innerHeight;
        }).map((one) => one.dataset.id);
        seen.filter((id) => !this.stages.has(id)).forEach((id) => this.lookAt(id).catch(() => null));
        const jobs = seen.map((id) => this.stages.get(id)).filter((stage) => stage?.status === 'processing');
        this.live.topics(['tenant', ...jobs.slice(0, WATCHED).map((stage) => `job:${stage.job}`)]);
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
        this.follow();
    }

    view() {
        const {items, isAsked, isLoading, next, problem} = this.pages;
        return html`<div class="page"><div class="heading"><h1>${t('nav.library')}</h1>${this.mayUpload
                ? html`<button class="main" @click=${() => this.querySelector('cv-uploads').choose()}><cv-icon name="upload"></cv-icon>${
                    t('upload')}</button>` : nothing}</div><cv-uploads></cv-uploads>
            <nav class="tabs" aria-label=${t('library.filter')}>${STATUSES.map((status) => html`<a
                href=${status ? `/videos?status=${status}` : '/videos'}
                aria-current=${status === this.status ? 'true' : nothing}>${t(`status.${status || 'all'}`)}</a>`)}</nav>
            <h2 class="unseen">${t(`status.${this.status || 'all'}`)}</h2>
            <div class="cards" data-state=${isAsked ? 'shown' : 'loading'}>
            ${items.map((video) => card(video, this.stages.get(video.id)))}</div>
            ${problem ? failure(problem, () => this.pages.more()) : nothing}
            ${isAsked && !items.length && !problem ? empty('film', t(this.status ? 'library.none' : 'library.empty'),
                t(this.status ? 'library.none.text' : this.mayUpload ? 'library.empty.drop' : 'library.empty.text')) : nothing}
            ${isLoading ? skeleton('card', items.length ? 4 : 12) : nothing}
            ${next && !isLoading && !problem ? html`<p class="end"><button @click=${() => this.pages.more()}>${t('more')}
                </button></p>` : nothing}</div>`;
    }
}
customElements.define('screen-library', LibraryScreen);
