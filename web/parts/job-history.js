/* What a job has been through: its attempts on one line of time, what they printed, its events and its files. */
import {html, nothing, svg} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {Element} from '../element.js';
import {failure, skeleton} from './states.js';
import {copy} from './toast.js';
import {count, moment, size, span, t} from '../text.js';

const LEVELS = ['', 'info', 'warn', 'error'];
const EVENTS = 50; // of a page
const WIDTH = 1000; // of the drawing

class JobHistory extends Element {
    attempts = [];
    events = [];
    files = [];
    level = '';
    next = null; // page of events
    wanted = ''; // in what was printed

    /** @param {any} job as the API has it */
    async load(job) {
        this.job = job;
        const path = `/jobs/${job.id}`;
        try {
            const [attempts, files] = await Promise.all([ask(`${path}/attempts`), ask(`${path}/artifacts`), this.loadEvents()]);
            [this.attempts, this.files, this.problem, this.isThere] = [attempts.items, files.items, null, true];
        } catch (problem) {
            this.problem = problem;
        }
        this.update();
    }

    async loadEvents(cursor = null) {
        const page = await ask(`/jobs/${this.job.id}/events`, {query: {level: this.level, limit: EVENTS, cursor}});
        this.events = cursor ? [...this.events, ...page.items] : page.items;
        this.next = page.next;
        this.update();
    }

    /** Waits in grey, work in colour, from the making of the job to its end or to now. */
    timeline() {
        const from = Date.parse(this.job.created_at);
        const to = Math.max(this.job.finished_at ? Date.parse(this.job.finished_at) : Date.now(), from + 1);
        const at = (time) => (time === null ? WIDTH : Math.min(Math.max((Date.parse(time) - from) / (to - from), 0), 1) * WIDTH);
        return html`<svg class="history" viewBox="0 0 ${WIDTH} 24" preserveAspectRatio="none" role="img"
            aria-label=${t('job.history.of', {n: this.attempts.length, span: span(to - from)})}>
            <rect x="0" y="10" width=${WIDTH} height="4"/>
            ${this.attempts.map((one) => svg`<rect class=${one.status} x=${at(one.started_at)} y="3" height="18" rx="3"
                width=${Math.max(at(one.finished_at) - at(one.started_at), 4)}><title>${one.attempt}: ${t(`attempt.${one.status}`)}</title></rect>`)}
            </svg><p class="faint ends"><span>${moment(this.job.created_at)}</span><span>${
            this.job.finished_at ? moment(this.job.finished_at) : t('job.now')}</span></p>`;
    }

    tail(name, text) {
        if (!text) {
            return nothing;
        }
        const lines = text.split('\n').filter((line) => !this.wanted || line.toLowerCase().includes(this.wanted));
        return html`<div class="heading small"><h3>${name}</h3><button class="plain" @click=${() => copy(text, t('copied'))}>
            <cv-icon name="copy"></cv-icon>${t('copy')}</button></div><pre tabindex="0" role="group" aria-label=${name}>${lines.join('\n')}</pre>`;
    }

    attempt(one) {
        const took = one.finished_at ? Date.parse(one.finished_at) - Date.parse(one.started_at) : Date.now() - Date.parse(one.started_at);
        const facts = [span(took), one.cpu_seconds !== null && t('attempt.cpu', {time: span(one.cpu_seconds * 1000)}),
            one.peak_memory_bytes !== null && size(one.peak_memory_bytes), one.exit_code !== null && t('attempt.exit', {code: one.exit_code}),
            one.worker].filter(Boolean);
        const hasTail = one.stdout_tail || one.stderr_tail;
        const head = html`<span class="badge ${one.status}">${one.attempt}. ${t(`attempt.${one.status}`)}</span>
            <span class="faint">${moment(one.started_at)} · ${facts.join(' · ')}</span>
            ${one.error_message ? html`<small class="why fault" dir="auto">${one.error_type}: ${one.error_message}</small>` : nothing}`;
        return html`<li>${hasTail ? html`<details ?open=${this.attempts.length === 1}><summary>${head}</summary>
            ${this.tail(t('attempt.stderr'), one.stderr_tail)}${this.tail(t('attempt.stdout'), one.stdout_tail)}</details>`
            : html`<p>${head}</p>`}</li>`;
    }

    event(one) {
        return html`<tr><td><time datetime=${one.ts}>${moment(one.ts)}</time></td><td><span class="badge ${one.level}">${one.level}</span></td>
            <td><b>${one.type}</b> <span dir="auto">${one.message}</span></td></tr>`;
    }

    view() {
        if (!this.job) {
            return nothing;
        }
        if (this.problem) {
            return failure(this.problem, () => this.load(this.job));
        }
        if (!this.isThere) {
            return skeleton('row', 3);
        }
        const hasTails = this.attempts.some((one) => one.stdout_tail || one.stderr_tail);
        return html`<section><h2>${t('job.history')}</h2>${this.timeline()}
            ${hasTails ? html`<p><input type="search" aria-label=${t('attempt.search')} placeholder=${t('attempt.search')} @input=${(event) => {
                this.wanted = event.target.value.toLowerCase();
                this.update();
            }}></p>` : nothing}
            ${this.attempts.length ? html`<ol class="attempts">${this.attempts.map((one) => this.attempt(one))}</ol>`
                : html`<p class="faint">${t('attempt.none')}</p>`}</section>
            <section><div class="heading"><h2>${t('job.events')}</h2><label class="faint">${t('job.level')} <select @change=${(event) => {
                this.level = event.target.value;
                this.loadEvents();
            }}>${LEVELS.map((level) => html`<option value=${level}>${level || t('state.all')}</option>`)}</select></label></div>
            ${this.events.length ? html`<table class="events"><thead><tr><th>${t('event.time')}</th><th>${t('job.level')}</th>
                <th>${t('event.what')}</th></tr></thead><tbody>${this.events.map((one) => this.event(one))}</tbody></table>`
                : html`<p class="faint">${t('event.none')}</p>`}
            ${this.next ? html`<p class="end"><button @click=${() => this.loadEvents(this.next)}>${t('more')}</button></p>` : nothing}</section>
            ${this.files.length ? html`<section><h2>${t('job.files')}</h2><ul class="files">${this.files.map((file) => html`<li>
                <span class="badge">${t(`file.${file.kind}`)}</span> <code>${file.key}</code> <small class="faint">${
                file.size === null ? '' : `${size(file.size)} (${count(file.size)} B)`}</small></li>`)}</ul></section>` : nothing}`;
    }
}
customElements.define('cv-job-history', JobHistory);
