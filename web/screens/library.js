/* The library: all videos, the newest first, and how far those are that are not ready. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, who} from '../api.js';
import {atMostEvery, Element} from '../element.js';
import {listen} from '../live.js';
import {Arrange} from '../parts/arrange.js';
import {Choice} from '../parts/choice.js';
import {isLeaving} from '../parts/deletions.js';
import {Pages, watchEnd} from '../parts/pages.js';
import {card, empty, failure, foldButton, OPEN, skeleton, titleOf} from '../parts/states.js';
import {findPlace, goQuery, queried} from '../router.js';
import {t} from '../text.js';
import '../parts/uploads.js';
import '../parts/video-bulk.js';
import '../parts/video-words.js';

const STATUSES = ['', 'processing', 'ready', 'failed', 'new', 'duplicate'];
const FILTERS = ['status', 'after', 'before', 'tag', 'collection', 'favourite'];
const WATCHED = 30; // running jobs whose progress is followed
const SETTLE_MS = 300; // before a video whose jobs change is asked for again

/** When a day begins, as many days after it. @param {string} text "2026-01-31" @returns {string} RFC 3339, or nothing */
function dayStart(text, more = 0) {
    const [year, month, day] = text.split('-').map(Number);
    const start = new Date(year, month - 1, day + more);
    return text && !Number.isNaN(start.getTime()) ? start.toISOString() : '';
}

class LibraryScreen extends Element {
    several = new Choice(() => this.shown(), () => this.update()); // videos that something is to be done to
    order = new Arrange(this, () => (this.mayChange ? queried('collection') : ''));
    stages = new Map(); // video → what is done with it
    unsure = new Set(); // videos that are to be asked for again
    lookLater = atMostEvery(SETTLE_MS, () => this.lookAgain());

    connectedCallback() {
        this.end = watchEnd(this);
        this.live = listen(['tenant'], (kind, data) => this.heard(kind, data));
        this.redraw = () => this.update();
        addEventListener('cv-leaving', this.redraw);
        this.changed = ({detail}) => this.put(detail);
        addEventListener('cv-video', this.changed);
        this.onAddress();
        who().then((me) => {
            this.mayChange = me.role !== 'viewer';
            this.mayUpload = this.mayChange && !!me.user_id;
            this.update();
        }, () => null); // the list says what is wrong
        this.count();
    }

    disconnectedCallback() {
        this.live.stop();
        this.end.stop();
        this.pages.stop();
        removeEventListener('cv-leaving', this.redraw);
        removeEventListener('cv-video', this.changed);
    }

    onAddress(isRepeated = false) {
        const key = FILTERS.map(queried).join();
        document.title = `${t('nav.library')} · cortana`;
        if (isRepeated) {
            this.pages.again();
        } else if (this.key !== key) {
            this.key = key;
            this.status = queried('status');
            this.after = dayStart(queried('after'));
            this.before = dayStart(queried('before'), 1); // the day itself, too
            this.isRestored = false;
            this.several.all(false);
            this.pages?.stop();
            this.pages = new Pages('/videos', {status: this.status, after: this.after, before: this.before, limit: 48,
                tag: queried('tag'), collection: queried('collection'), favourite: queried('favourite')}, () => this.update());
            this.pages.start();
        }
        this.update();
    }

    /** What there is to choose from. */
    async count() {
        this.facets = await ask('/videos/facets').catch(() => null);
        this.update();
    }

    shown() {
        return this.pages?.items.filter((video) => !isLeaving(video.id)) ?? [];
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
        const isWanted = !['tag', 'collection', 'favourite'].some(queried) && (!this.status || this.status === video.status) && video.created_at > this.after &&
            (!this.before || video.created_at < this.before);
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
        this.end.look();
        if (!this.isRestored && this.pages.isStarted) {
            this.isRestored = true;
            findPlace();
        }
        this.follow();
    }

    /** Only videos that were imported on these days. */
    days() {
        const field = (name) => html`<label>${t(`library.${name}`)} <input type="date" name=${name} .value=${queried(name)}
            max=${name === 'after' ? queried('before') : nothing} min=${name === 'before' ? queried('after') : nothing}
            @change=${(event) => goQuery({[name]: event.target.value})}></label>`;
        const chosen = ['after', 'before', 'tag', 'collection', 'favourite'].filter((name) => queried(name)).length;
        return html`<div class="filters ${this.areFiltersOpen ? 'open' : ''}">${foldButton(this, chosen)}${field('after')}${field('before')}${queried('after') || queried('before') ? html`<button class="plain"
            @click=${() => goQuery({after: null, before: null})}>${t('library.any')}</button>` : nothing}${this.filed()}</div>`;
    }

    /** Only videos with a tag, in a collection, or favourites. */
    filed() {
        const choice = (name, all) => all.length || queried(name) ? html`<label>${t(`library.${name}`)} <select name=${name}
            @change=${(event) => goQuery({[name]: event.target.value || null})}><option value="">${t('status.all')}</option>${all.map(([value, text, n]) => html`<option
            value=${value} ?selected=${value === queried(name)}>${text} (${n})</option>`)}</select></label>` : nothing;
        const {collection = [], favourite = 0, tag = {}} = this.facets ?? {};
        return html`${choice('tag', Object.entries(tag).map(([name, n]) => [name, name, n]))}
            ${choice('collection', collection.map(({id, name, count: n}) => [id, name, n]))}
            ${favourite || queried('favourite') ? html`<label><input type="checkbox" name="favourite" .checked=${!!queried('favourite')}
                @change=${(event) => goQuery({favourite: event.target.checked ? 'true' : null})}>${t('library.favourite')}</label>` : nothing}`;
    }

    /** What may be done to those that are chosen. */
    few() {
        const open = (action, key) => html`<button @click=${() => this.querySelector('cv-video-bulk').open(action,
            this.shown().filter((video) => this.several.has(video.id)))}>${t(key)}</button>`;
        const file = html`<button @click=${() => this.querySelector('cv-video-words').open(
            this.shown().filter((video) => this.several.has(video.id)), true)}>${t('words.many')}</button>`;
        const takeOut = queried('collection') ? html`<button @click=${() => {
            this.order.remove([...this.several.chosen]);
            this.several.all(false);
        }}>${t('order.remove')}</button>` : nothing;
        return this.several.bar(html`${file}${takeOut}${open('reindex', 'video.reindex')}${open('reprocess', 'video.reprocess')}${open('delete', 'delete')}
            ${this.several.size < this.shown().length ? html`<button class="plain" @click=${() => this.several.all(true)}>${t('choose.all')}</button>` : nothing}`);
    }

    tab(status) {
        const wishes = FILTERS.map((name) => [name, name === 'status' ? status : queried(name)]).filter(([, value]) => value);
        return html`<a href=${wishes.length ? `/videos?${new URLSearchParams(wishes)}` : '/videos'}
            aria-current=${status === this.status ? 'true' : nothing}>${t(`status.${status || 'all'}`)}</a>`;
    }

    view() {
        const {isAsked, isLoading, next, problem} = this.pages;
        const items = this.shown();
        const isAll = !FILTERS.some(queried);
        const drag = this.order.events;
        return html`<div class="page"><div class="heading"><h1>${t('nav.library')}</h1>${this.mayUpload
                ? html`<button class="main" @click=${() => this.querySelector('cv-uploads').choose()}><cv-icon name="upload"></cv-icon>${
                    t('upload')}</button>` : nothing}</div><cv-uploads></cv-uploads>
            <nav class="tabs" aria-label=${t('library.filter')}>${STATUSES.map((status) => this.tab(status))}</nav>
            ${this.days()}${this.few()}<h2 class="unseen">${t(`status.${this.status || 'all'}`)}</h2>
            ${items.length ? html`<ul class="cards ${this.several.size ? 'choosing' : ''}"
                @dragstart=${drag.dragstart} @dragover=${drag.dragover} @drop=${drag.drop} @dragend=${drag.dragend}>
            ${items.map((video, n) => card(video, this.stages.get(video.id), this.mayChange ? html`${this.several.box(video.id, titleOf(video))}${this.order.buttons(video, n)}` : nothing))}</ul>` : nothing}
            ${problem ? failure(problem, () => this.pages.more()) : nothing}
            ${isAsked && !items.length && !problem ? empty('film', t(!isAll ? 'library.none' : 'library.empty'),
                t(!isAll ? 'library.none.text' : this.mayUpload ? 'library.empty.drop' : 'library.empty.text')) : nothing}
            ${isLoading ? skeleton('card', items.length ? 4 : 12) : nothing}
            ${next && !isLoading && !problem ? html`<p class="end"><button @click=${() => this.pages.more()}>${t('more')}
                </button></p>` : nothing}<cv-video-bulk @cv-changed=${() => this.several.all(false)}></cv-video-bulk><cv-video-words @cv-changed=${() => {
                this.several.all(false);
                this.count();
                this.pages.again();
            }}></cv-video-words></div>`;
    }
}
customElements.define('screen-library', LibraryScreen);
