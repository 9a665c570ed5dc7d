/* Jobs: what the workers do, did and will do; filters stand in the address, and what happens is shown while it does. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, who} from '../api.js';
import {atMostEvery, Element, whenQuiet} from '../element.js';
import {listen} from '../live.js';
import {Choice} from '../parts/choice.js';
import {isOperator, learnPlaces, places, tenantName} from '../parts/operate.js';
import {Pages, watchEnd} from '../parts/pages.js';
import {empty, failure, foldButton, jobName, OPEN, skeleton, typeName, videoLink} from '../parts/states.js';
import {goQuery, queried, remember, remembered} from '../router.js';
import {ago, count, moment, span, t} from '../text.js';
import '../parts/bulk.js';

const STATES = ['', 'processing', 'queued', 'retry', 'failed', 'done', 'canceled'];
const WITHIN = ['', '1', '24', '168']; // hours
const FILTERS = ['state', 'q', 'type', 'video', 'run', 'error', 'within', 'worker', 'tenant'];
const ONLY_SHOWN = ['worker', 'tenant']; // filters of the list that changes of many jobs do not have
const FRESH_MAX = 200; // new jobs that are kept until somebody wants to see them
const WATCHED = 40; // running jobs whose progress is followed
const SETTLE_MS = 1000; // before the counts are asked for again
const TYPING_MS = 300;
const LEAST = 2; // letters of a part

const took = (job) => job.started_at
    ? span((job.finished_at ? Date.parse(job.finished_at) : Date.now()) - Date.parse(job.started_at)) : null;
const when = (time) => time && html`<time datetime=${time} title=${moment(time)}>${ago(time)}</time>`;

/** What may be shown of a job beside its state and its type; null: there is nothing. */
const COLUMNS = {
    created: (job) => when(job.created_at),
    waited: (job) => job.started_at ? span(Date.parse(job.started_at) - Date.parse(job.created_at)) : null,
    ran: took,
    attempt: (job) => job.attempt,
    finished: (job) => when(job.finished_at),
    run: (job) => job.run_id && html`<a href="/runs/${job.run_id}"><code>${job.run_id.slice(-8)}</code></a>`,
    priority: (job) => job.priority,
    source: (job) => job.source,
    worker: (job) => job.worker,
    tenant: (job) => job.tenant_id && html`<span dir="auto">${tenantName(job.tenant_id, tenants.get(job.tenant_id) ?? null)}</span>`,
};
let tenants = new Map(); // their names, by their ids
const OF_OPERATORS = ['worker', 'tenant'];
const AT_FIRST = ['created', 'waited', 'ran', 'attempt'];

const keptColumns = () => JSON.parse(localStorage.getItem('columns') ?? 'null')?.filter((name) => name in COLUMNS) ?? AT_FIRST;
const shownTo = (names) => names.filter((name) => isOperator() || !OF_OPERATORS.includes(name));

class JobsScreen extends Element {
    types = [];
    counts = new Map(); // state → number, of the type that is chosen
    fresh = new Map(); // jobs that were made since, the first ones
    several = new Choice(() => this.pages.items, () => this.update()); // jobs that something is to be done to
    columns = keptColumns();
    searchLater = whenQuiet((text) => (text.length >= LEAST || !text) && goQuery({q: text || null}, true), TYPING_MS);

    connectedCallback() {
        this.end = watchEnd(this);
        this.countLater = atMostEvery(SETTLE_MS, () => this.countAll());
        this.live = listen(['tenant'], (kind, data) => this.heard(kind, data));
        this.keys = (event) => this.onKey(event);
        document.addEventListener('keydown', this.keys);
        this.onAddress();
        who().then((me) => {
            this.mayMany = ['service', 'operator', 'admin'].includes(me.role);
            this.update();
        }, () => null); // the list says what is wrong
        Promise.all([ask('/job-types'), learnPlaces()]).then(([answer]) => {
            this.types = answer.items;
            this.nameTenants();
            this.update();
        }, () => null);
    }

    disconnectedCallback() {
        document.removeEventListener('keydown', this.keys);
        this.live.stop();
        this.end.stop();
        this.pages.stop();
    }

    /** What the list is asked for, and many jobs are changed by. */
    wishes() {
        const {within, ...same} = Object.fromEntries(FILTERS.map((name) => [name, queried(name)]).filter(([, value]) => value));
        const hour = 3600000; // by the minute, so that the same list has the same name for a while
        const since = within && new Date(Math.floor((Date.now() - Number(within) * hour) / 60000) * 60000).toISOString();
        return {...same, ...since && {created_after: since}};
    }

    onAddress(isRepeated = false) {
        const key = FILTERS.map(queried).join('\n');
        document.title = `${t('nav.jobs')} · cortana`;
        if (this.showBeside() && this.key === key && !isRepeated) {
            return; // the list stays as it is
        }
        this.fresh.clear();
        this.several.all(false);
        if (isRepeated || this.key === key) {
            this.pages.again();
        } else {
            this.key = key;
            this.pages?.stop();
            this.pages = new Pages('/jobs', {...this.wishes(), limit: 50}, () => this.listed());
            this.pages.start();
        }
        this.countAll();
        this.update();
    }

    /** Shows the job of the address beside the list. @returns {boolean} whether another one was shown before, or none */
    showBeside() {
        const id = queried('job');
        const isOther = id !== this.beside;
        if (isOther) {
            const before = this.beside;
            this.beside = id;
            (id ? import('./job.js') : Promise.resolve()).then(async () => {
                this.update();
                await Promise.resolve();
                (id ? this.querySelector('.beside') : this.querySelector(`tr[data-id="${before}"] a`))?.focus({preventScroll: true});
            });
        }
        return isOther;
    }

    openBeside(event, id) {
        if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) {
            return; // a tab of its own
        }
        event.preventDefault();
        goQuery({job: id}, !!this.beside);
        remember({isFromList: true});
    }

    closeBeside() {
        if (remembered().isFromList) {
            history.back();
        } else {
            goQuery({job: null}, true);
        }
    }

    onKey(event) {
        if (event.key === 'Escape' && this.beside && !document.querySelector('dialog[open], .menu[open], :popover-open')) {
            this.closeBeside();
        }
    }

    /** What was heard while the list was read again is in the list, too. */
    listed() {
        for (const job of this.pages.items) {
            this.fresh.delete(job.id);
        }
        this.update();
    }

    async countAll() {
        const {items} = await ask('/jobs/summary').catch(() => ({items: []}));
        this.counts.clear();
        for (const one of items.filter((item) => !queried('type') || item.job_type === queried('type'))) {
            this.counts.set(one.state, (this.counts.get(one.state) ?? 0) + one.jobs);
        }
        this.update();
    }

    heard(kind, data) {
        if (kind === 'reset') {
            this.onAddress(true);
            return;
        }
        if (kind !== 'job' || !data.job_type) {
            return;
        }
        const isShown = this.pages.items.some((job) => job.id === data.id);
        if (isShown) {
            this.pages.items = this.pages.items.map((job) => job.id === data.id ? data : job);
        } else if (this.isWanted(data) && this.pages.isAsked && (data.created_at > (this.pages.items[0]?.created_at ?? ''))) {
            if (this.fresh.has(data.id) || this.fresh.size < FRESH_MAX) {
                this.fresh.set(data.id, data);
            }
        }
        this.countLater();
        this.update();
    }

    /** Asks what tenants are called, where they are shown. */
    async nameTenants() {
        if (shownTo(this.columns).includes('tenant')) {
            const {items} = await ask('/tenants').catch(() => ({items: []}));
            tenants = new Map(items.map((one) => [one.tenant_id, one.name]));
            this.update();
        }
    }

    isWanted(job) {
        const wanted = {state: job.state, type: job.job_type, video: job.video_id, run: job.run_id, error: job.error?.type};
        const part = queried('q').toLowerCase();
        const hasPart = [job.job_type, job.error?.type, job.error?.message].some((text) => text?.toLowerCase().includes(part)) || job.id.startsWith(part);
        return (!part || hasPart) && Object.entries(wanted).every(([name, value]) => !queried(name) || queried(name) === value);
    }

    showFresh() {
        if (this.fresh.size >= FRESH_MAX) {
            this.pages.again(); // there may be more than are kept
        } else {
            this.pages.items = [...[...this.fresh.values()].reverse(), ...this.pages.items];
        }
        this.fresh.clear();
        scrollTo(0, 0);
        this.update();
    }

    drawn() {
        this.end.look();
        const field = this.querySelector('input[name=q]');
        if (field !== document.activeElement) {
            field.value = queried('q');
        }
        const running = this.pages.items.filter((job) => job.state === 'processing').slice(0, WATCHED);
        this.live.topics(['tenant', ...running.map((job) => `job:${job.id}`)]);
    }

    /** One column more or less, in this browser. */
    toggleColumn(name) {
        this.columns = Object.keys(COLUMNS).filter((one) => (one === name) !== this.columns.includes(one));
        localStorage.setItem('columns', JSON.stringify(this.columns));
        this.nameTenants();
        this.update();
    }

    chooseColumns() {
        return html`<details class="menu columns"><summary class="button">${t('jobs.columns')}</summary><fieldset><legend class="unseen">${t('jobs.columns')}</legend>${
            shownTo(Object.keys(COLUMNS)).map((name) => html`<label><input type="checkbox" name=${name} .checked=${this.columns.includes(name)}
            @change=${() => this.toggleColumn(name)}> ${t(`job.${name}`)}</label>`)}</fieldset></details>`;
    }

    row(job) {
        return html`<tr data-id=${job.id} class=${job.id === this.beside ? 'open' : ''}><td>${this.mayMany ? this.several.box(job.id, `${
                jobName(job)}, ${ago(job.created_at)}`) : nothing}<span class="badge ${job.state}">${t(`state.${job.state}`)}</span></td>
            <td @click=${(event) => event.target.closest('a') && this.openBeside(event, job.id)}>${videoLink(`/jobs/${job.id}`, job.video, typeName(job.job_type))}
            ${job.error?.message ? html`<small class="why" dir="auto">${job.error.message}</small>`
                : job.state === 'processing' ? html`<progress max="1" value=${job.progress} aria-label=${t('progress')}></progress>
                    <small class="why">${job.message ?? ''}</small>`
                    : job.state === 'canceled' && job.message ? html`<small class="why">${job.message}</small>` : nothing}</td>
            ${shownTo(this.columns).map((name) => {
                const value = COLUMNS[name](job);
                return html`<td data-label=${t(`job.${name}`)} data-column=${name} class=${value === null ? 'none' : ''}>${value ?? '–'}</td>`;
            })}</tr>`;
    }

    tab(name) {
        const others = Object.fromEntries(FILTERS.filter((one) => one !== 'state' && queried(one)).map((one) => [one, queried(one)]));
        const number = OPEN.includes(name) || name === 'failed' ? this.counts.get(name) : 0;
        const shown = number ? count(number) : '';
        return html`<a href="/jobs?${new URLSearchParams({...others, ...name && {state: name}})}"
            aria-current=${name === queried('state') ? 'true' : nothing} aria-label="${t(`state.${name || 'all'}`)} ${shown}">${t(`state.${name || 'all'}`)}${
            shown ? html` <small>${shown}</small>` : nothing}</a>`;
    }

    /** What may be done to all that the filter shows. */
    many() {
        const wishes = this.wishes();
        const isShownOnly = ONLY_SHOWN.some((name) => wishes[name]);
        if (!this.mayMany || isShownOnly || !Object.keys(wishes).length || !this.pages.items.length) {
            return nothing;
        }
        const open = (action) => html`<button @click=${() => this.querySelector('cv-bulk').open(action, wishes)}>${t(`bulk.${action}`)}</button>`;
        const {state} = wishes;
        return html`<span class="actions">${!state || ['failed', 'canceled', 'retry'].includes(state) ? open('retry') : nothing}
            ${!state || OPEN.includes(state) ? open('cancel') : nothing}</span>`;
    }

    /** What may be done to those that are chosen. */
    few() {
        const open = (action) => html`<button @click=${() => this.querySelector('cv-bulk').open(action, {ids: [...this.several.chosen]})}>${t(`job.${action}`)}</button>`;
        return this.several.bar(html`${open('retry')}${open('cancel')}`);
    }

    choice(key, name, options) {
        return html`<label>${t(key)} <select @change=${(event) => goQuery({[name]: event.target.value || null})}>${
            options.map(([value, text]) => html`<option value=${value} ?selected=${value === queried(name)}>${text}</option>`)}</select></label>`;
    }

    filters() {
        const chip = (name, key) => queried(name) ? html`<button class="chip on" @click=${() => goQuery({[name]: null})}>${t(key)}
            <cv-icon name="close"></cv-icon></button>` : nothing;
        const chosen = FILTERS.filter((name) => !['q', 'state'].includes(name) && queried(name)).length;
        return html`<div class="filters ${this.areFiltersOpen ? 'open' : ''}">${foldButton(this, chosen)}<input type="search" name="q" maxlength="100" placeholder=${t('jobs.search')} aria-label=${t('jobs.search')}
            @input=${(event) => this.searchLater(event.target.value.trim())}>${this.choice('job.type', 'type', [['', t('state.all')], ...this.types.map((type) => (
                [type.name, `${typeName(type.name)}${type.paused_at ? ` (${t('job.paused')})` : ''}`]))])}
            ${this.choice('job.within', 'within', WITHIN.map((hours) => [hours, t(`job.within.${hours || 'any'}`)]))}
            ${chip('video', 'job.video.one')}${chip('run', 'job.run.one')}${chip('worker', 'job.worker.one')}${chip('tenant', 'job.tenant.one')}<span class="gap"></span>${this.many()}${this.chooseColumns()}</div>`;
    }

    view() {
        const {items, isAsked, isLoading, next, problem} = this.pages;
        return html`<div class="page"><div class="heading"><h1>${t('nav.jobs')}</h1></div>${places()}
            <nav class="tabs" aria-label=${t('jobs.filter')}>${STATES.map((name) => this.tab(name))}</nav>
            ${this.filters()}
            ${this.fresh.size ? html`<p class="fresh"><button @click=${() => this.showFresh()}>${t(this.fresh.size < FRESH_MAX ? 'jobs.fresh' : 'jobs.fresh.many', {n: this.fresh.size})}</button></p>` : nothing}
            ${items.length ? html`${this.few()}<table data-state="shown"><thead><tr><th>${this.mayMany ? this.several.boxOfAll() : nothing}${t('job.state')}</th><th>${t('job.type')}</th>
                ${shownTo(this.columns).map((name) => html`<th>${t(`job.${name}`)}</th>`)}</tr></thead>
                <tbody>${items.map((job) => this.row(job))}</tbody></table>` : nothing}
            ${problem ? failure(problem, () => this.pages.more()) : nothing}
            ${isAsked && !items.length && !problem && !next ? empty('jobs', t('jobs.none'), t('jobs.none.text')) : nothing}
            ${isLoading ? skeleton('row', items.length ? 2 : 8) : nothing}
            ${next && !isLoading && !problem ? html`<p class="end"><button @click=${() => this.pages.more()}>${t('more')}
                </button></p>` : nothing}<cv-bulk @cv-changed=${() => this.onAddress(true)}></cv-bulk>
            ${this.beside && customElements.get('screen-job') ? html`<div class="beside" role="dialog" aria-label=${t('job.one')} tabindex="-1"><p class="actions"><a
                class="button" href="/jobs/${this.beside}">${t('job.page')}</a><button class="plain" title=${t('close')} aria-label=${t('close')}
                @click=${() => this.closeBeside()}><cv-icon name="close"></cv-icon></button></p><screen-job data-id=${this.beside}></screen-job></div>` : nothing}</div>`;
    }
}
customElements.define('screen-jobs', JobsScreen);
