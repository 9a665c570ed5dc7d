/* One job: its state, what went wrong, what it was given and gave; cancel and retry. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {Element} from '../element.js';
import {forgetPages} from '../parts/pages.js';
import {failure, skeleton} from '../parts/states.js';
import {say} from '../parts/toast.js';
import {moment, span, t} from '../text.js';
import {typeName} from './jobs.js';

const LOOK_MS = 2000; // between two looks at a job that is not over
const LOOK_SLOWEST_MS = 20000;
const OPEN = ['queued', 'processing', 'retry', 'stopping', 'lost'];

class JobScreen extends Element {
    wait = LOOK_MS;

    connectedCallback() {
        this.look();
    }

    disconnectedCallback() {
        clearTimeout(this.timer);
    }

    onAddress() {
        this.look();
    }

    /** Asks for the job, and again while it is not over: less often while nothing changes. */
    async look() {
        clearTimeout(this.timer);
        const before = JSON.stringify(this.job);
        try {
            this.job = await ask(`/jobs/${this.dataset.id}`);
            this.problem = null;
            document.title = `${typeName(this.job.job_type)} · cortana`;
        } catch (problem) {
            this.problem = problem;
        }
        this.wait = JSON.stringify(this.job) === before ? Math.min(this.wait * 1.5, LOOK_SLOWEST_MS) : LOOK_MS;
        this.update();
        if (this.isConnected && !this.problem && OPEN.includes(this.job.state)) {
            this.timer = setTimeout(() => this.look(), this.wait);
        }
    }

    async change(action) {
        try {
            await ask(`/jobs/${this.dataset.id}/${action}`, {method: 'POST'});
            forgetPages();
            say(t(`job.${action}.done`));
        } catch (problem) {
            say(problem.text, 'bad');
        }
        this.look();
    }

    json(key, value) {
        return value === null || value === undefined ? nothing : html`<section><h2>${t(key)}</h2>
            <pre tabindex="0">${JSON.stringify(value, null, 2)}</pre></section>`;
    }

    view() {
        const {job, problem} = this;
        if (problem) {
            return html`<div class="page narrow">${failure(problem, () => this.look(), true)}</div>`;
        }
        if (!job) {
            return html`<div class="page narrow">${skeleton('row', 4)}</div>`;
        }
        const fact = (key, value) => value ? html`<dt>${t(key)}</dt><dd>${value}</dd>` : nothing;
        const between = (from, to) => from && to ? span(Date.parse(to) - Date.parse(from)) : null;
        return html`<div class="page narrow" data-state=${job.state}>
            <div class="heading"><h1>${typeName(job.job_type)} <span class="badge ${job.state}">${t(`state.${job.state}`)}</span></h1>
            <span class="actions">${OPEN.includes(job.state) ? html`<button @click=${() => this.change('cancel')}>${t('job.cancel')}
                </button>` : nothing}
            ${['failed', 'canceled'].includes(job.state) ? html`<button class="main" @click=${() => this.change('retry')}>${
                t('job.retry')}</button>` : nothing}</span></div>
            ${job.state === 'processing' ? html`<p><progress max="1" value=${job.progress} aria-label=${t('progress')}></progress>
                <span class="faint">${Math.round(job.progress * 100)} % ${job.message ?? ''}</span></p>` : nothing}
            ${job.error ? html`<div class="error-box"><h2>${job.error.type}</h2><p dir="auto">${job.error.message}</p>
                ${job.state === 'retry' && job.scheduled_for ? html`<p class="faint">${
                    t('job.next', {time: moment(job.scheduled_for)})}</p>` : nothing}</div>` : nothing}
            <dl class="facts-list">
                ${fact('job.created', moment(job.created_at))}
                ${fact('job.waited', between(job.created_at, job.started_at))}
                ${fact('job.started', job.started_at && moment(job.started_at))}
                ${fact('job.ran', between(job.started_at, job.finished_at))}
                ${fact('job.attempt', t('job.attempts', {n: job.attempt, most: job.max_retries + 1}))}
                ${fact('job.worker', job.worker)}
                ${fact('job.video', job.video_id && html`<a href="/videos/${job.video_id}">${job.video_id}</a>`)}
                ${fact('job.id', html`<code>${job.id}</code>`)}</dl>
            ${this.json('job.payload', job.payload)}${this.json('job.result', job.result)}</div>`;
    }
}
customElements.define('screen-job', JobScreen);
