/* One job: its state, why it waits or what went wrong, what it has been through, what it was given and gave. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {atMostEvery, Element} from '../element.js';
import {listen} from '../live.js';
import {learnPlaces, places} from '../parts/operate.js';
import {forgetPages} from '../parts/pages.js';
import {asks} from '../parts/question.js';
import {failure, jobName, OPEN, skeleton, titleOf, typeName} from '../parts/states.js';
import {copy, say} from '../parts/toast.js';
import {hasText, moment, span, t} from '../text.js';
import '../parts/job-history.js';

const SETTLE_MS = 300; // before the history of a job that changes is read again

/** What there is to say of a reason, of its facts; in the API's words where the page has none. */
function detailOf({reason, detail, facts}) {
    const form = facts?.of ?? (facts?.until === null ? 'soon' : facts?.n === 0 ? 'next' : 'detail');
    const key = `why.${reason}.${form}`;
    if (!facts || !hasText(key)) {
        return detail ?? '';
    }
    const times = ['at', 'since', 'until'].filter((name) => facts[name]).map((name) => [name, moment(facts[name])]);
    return t(key, {...facts, ...Object.fromEntries(times), said: facts.said ? `: ${facts.said}` : '', step: typeName(facts.step),
        type: typeName(facts.type), status: facts.status && t(`state.${facts.status}`)});
}

class JobScreen extends Element {
    reasons = [];
    static observedAttributes = ['data-id'];

    /** Another job, beside a list. */
    attributeChangedCallback(_, before) {
        if (before && this.isConnected) {
            this.disconnectedCallback();
            this.job = null;
            this.connectedCallback();
        }
    }

    connectedCallback() {
        this.live = listen([`job:${this.dataset.id}`], (kind, data) => this.heard(kind, data));
        this.lookAround = atMostEvery(SETTLE_MS, () => this.loadOther());
        learnPlaces().then((role) => {
            this.mayChange = role !== 'viewer';
            this.update();
        }, () => null);
        this.look();
    }

    disconnectedCallback() {
        this.live.stop();
    }

    onAddress() {
        this.look();
    }

    heard(kind, data) {
        if (kind === 'reset' || !this.job || (OPEN.includes(this.job.state) && !OPEN.includes(data.state))) {
            this.look(); // the result is told by the job alone
            return;
        }
        const isOther = data.state !== this.job.state || data.attempt !== this.job.attempt;
        this.job = {...this.job, ...data};
        this.update();
        if (isOther) {
            this.lookAround();
        }
    }

    async look() {
        try {
            this.job = await ask(`/jobs/${this.dataset.id}`);
            this.problem = null;
            document.title = `${jobName(this.job)} · cortana`;
            this.loadOther();
        } catch (problem) {
            this.problem = problem;
        }
        this.update();
    }

    async loadOther() {
        this.reasons = this.isWaiting
            ? (await ask(`/jobs/${this.job.id}/why`).catch(() => ({items: []}))).items : [];
        this.update();
        await Promise.resolve();
        await this.querySelector('cv-job-history')?.load(this.job);
    }

    async cancel() {
        if (await asks('job', {name: jobName(this.job)})) {
            await this.change('cancel');
        }
    }

    async change(action, body) {
        try {
            const {state} = await ask(`/jobs/${this.dataset.id}/${action}`, {method: 'POST', body}) ?? {};
            forgetPages();
            say(t(`job.${action}.${state === 'stopping' ? 'stopping' : 'done'}`));
        } catch (problem) {
            say(problem.text, 'bad');
        }
        this.look();
    }

    json(key, value) {
        const text = JSON.stringify(value, null, 2);
        return value === null || value === undefined ? nothing : html`<section><div class="heading small"><h2>${t(key)}</h2>
            <button class="plain" @click=${() => copy(text, t('copied'))}><cv-icon name="copy"></cv-icon>${t('copy')}</button></div>
            <pre tabindex="0" role="group" aria-label=${t(key)}>${text}</pre></section>`;
    }

    get isWaiting() {
        const isSkipped = this.job.state === 'canceled' && this.job.message;
        return isSkipped || OPEN.includes(this.job.state) && this.job.state !== 'processing';
    }

    /** Why it does not run, the decisive reason first. */
    why() {
        return this.isWaiting && this.reasons.length ? html`<section class="why-box"><h2>${t('job.why')}</h2><ul>${this.reasons.map((one) => html`<li>
            <b>${t(`why.${one.reason}`)}</b> <span class="faint" dir="auto">${one.facts?.job ? html`<a href="/jobs/${one.facts.job}">${detailOf(one)}</a>` : detailOf(one)}</span></li>`)}</ul></section>` : nothing;
    }

    actions(job) {
        if (!this.mayChange) {
            return nothing;
        }
        const mayWait = ['queued', 'retry', 'failed'].includes(job.state);
        return html`<span class="actions">${mayWait ? html`<label class="faint">${t('job.priority')}
            <select @change=${(event) => this.change('priority', {priority: Number(event.target.value)})}>${
            Array.from({length: 11}, (_, n) => html`<option value=${n} ?selected=${n === job.priority}>${n}</option>`)}</select></label>` : nothing}
            ${OPEN.includes(job.state) ? html`<button @click=${() => this.cancel()}>${t('job.cancel')}</button>` : nothing}
            ${['failed', 'canceled'].includes(job.state) ? html`<button class="main" @click=${() => this.change('retry')}>${
                t('job.retry')}</button>` : nothing}</span>`;
    }

    view() {
        const ways = this.closest('.beside') ? nothing : places(); // beside a list are those of the list
        return html`<div class="page narrow" data-state=${this.problem ? nothing : this.job?.state ?? nothing}>${this.problem
            ? html`${failure(this.problem, () => this.look(), true)}${ways}` : this.job ? this.content(this.job, ways) : html`${ways}${skeleton('row', 4)}`}</div>`;
    }

    content(job, ways) {
        const fact = (key, value) => value ? html`<dt>${t(key)}</dt><dd>${value}</dd>` : nothing;
        const between = (from, to) => from && to ? span(Date.parse(to) - Date.parse(from)) : null;
        return html`<div class="heading"><h1>${typeName(job.job_type)}${job.video ? html`: <a href="/videos/${job.video.id}" dir="auto">${titleOf(job.video)}</a>` : nothing} <span class="badge ${job.state}">${t(`state.${job.state}`)}</span></h1>
            ${this.actions(job)}</div>${ways}
            ${job.state === 'processing' ? html`<p><progress max="1" value=${job.progress} aria-label=${t('progress')}></progress>
                <span class="faint">${Math.round(job.progress * 100)} % ${job.message ?? ''}</span></p>` : nothing}
            ${job.error ? html`<div class="error-box"><h2>${job.error.type}</h2><p dir="auto">${job.error.message}</p>
                ${job.state === 'retry' && job.scheduled_for ? html`<p class="faint">${
                    t('job.next', {time: moment(job.scheduled_for)})}</p>` : nothing}</div>` : nothing}
            ${this.why()}
            <dl class="facts-list">
                ${fact('job.created', moment(job.created_at))}
                ${fact('job.waited', between(job.created_at, job.started_at))}
                ${fact('job.started', job.started_at && moment(job.started_at))}
                ${fact('job.ran', between(job.started_at, job.finished_at))}
                ${fact('job.attempt', job.attempt && t('job.attempts', {n: job.attempt, most: job.max_retries + 1}))}
                ${fact('job.worker', job.worker)}
                ${fact('job.video', job.video_id && html`<a href="/videos/${job.video_id}" dir="auto">${job.video ? titleOf(job.video) : job.video_id}</a>`)}
                ${fact('job.run', job.run_id && html`<a href="/runs/${job.run_id}">${job.run_id}</a>`)}
                ${fact('job.depends', job.depends_on?.length && job.depends_on.map((id) => html`<a href="/jobs/${id}">${id}</a> `))}
                ${fact('job.id', html`<code>${job.id}</code>`)}</dl>
            <cv-job-history></cv-job-history>
            ${this.json('job.payload', job.payload)}${this.json('job.result', job.result)}`;
    }
}
customElements.define('screen-job', JobScreen);
