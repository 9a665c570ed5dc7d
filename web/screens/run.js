/* One run: its steps as a graph from left to right, and the same as a list. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {atMostEvery, Element} from '../element.js';
import {listen} from '../live.js';
import {graph} from '../parts/graph.js';
import {learnPlaces, places} from '../parts/operate.js';
import {asks} from '../parts/question.js';
import {failure, skeleton, titleOf, typeName, workflowName} from '../parts/states.js';
import {say} from '../parts/toast.js';
import {count, moment, span, t} from '../text.js';

const SETTLE_MS = 500; // between two looks while jobs change
const PARTS = 12; // of a step that are listed
const WORST = ['failed', 'lost', 'processing', 'stopping', 'retry', 'queued', 'canceled', 'done']; // a step's state is its worst part's

class RunScreen extends Element {
    connectedCallback() {
        this.again = atMostEvery(SETTLE_MS, () => this.look());
        this.live = listen([`run:${this.dataset.id}`], () => this.again());
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

    /** What it does, and to which video. */
    get name() {
        const {workflow, video} = this.run;
        return video ? t('job.of', {name: workflowName(workflow), video: titleOf(video)}) : workflowName(workflow);
    }

    async look() {
        try {
            this.run = await ask(`/runs/${this.dataset.id}`);
            this.problem = null;
            document.title = `${this.name} · cortana`;
        } catch (problem) {
            this.problem = problem;
        }
        this.update();
    }

    async cancel() {
        if (await asks('run', {name: this.name})) {
            await this.change('cancel');
        }
    }

    async change(action) {
        try {
            await ask(`/runs/${this.dataset.id}/${action}`, {method: 'POST'});
            say(t(`run.${action}.done`));
        } catch (problem) {
            say(problem.text, 'bad');
        }
        this.look();
    }

    /** A step with its jobs, whose parts are counted. */
    steps() {
        const known = this.run.steps ?? [];
        const extra = [...new Set(this.run.jobs.map((job) => job.step))].filter((key) => !known.some((step) => step.key === key));
        return [...known, ...extra.map((key) => ({key, job_type: key}))].map((step) => {
            const jobs = this.run.jobs.filter((job) => job.step === step.key);
            const state = WORST.find((one) => jobs.some((job) => job.state === one)) ?? 'none';
            return {...step, jobs, state, done: jobs.filter((job) => job.state === 'done').length};
        });
    }

    said(step) {
        const [job] = step.jobs;
        if (!job) {
            return t('run.step.none');
        }
        if (step.jobs.length > 1) {
            return t('run.step.parts', {n: step.jobs.length, done: step.done});
        }
        const took = job.finished_at && job.started_at ? ` · ${span(Date.parse(job.finished_at) - Date.parse(job.started_at))}` : '';
        return `${t(`state.${job.state}`)}${job.state === 'processing' ? ` ${Math.round(job.progress * 100)} %` : took}`;
    }

    view() {
        const {run, problem} = this;
        if (problem || !run) {
            return html`<div class="page">${problem ? failure(problem, () => this.look(), true) : skeleton('row', 4)}${places()}</div>`;
        }
        const steps = this.steps();
        return html`<div class="page" data-state=${run.status}><div class="heading"><h1><span dir="auto">${this.name}</span>
            <span class="badge ${run.status}">${t(`run.${run.status}`)}</span></h1>${this.mayChange ? html`<span class="actions">
            ${run.status === 'running' ? html`<button @click=${() => this.cancel()}>${t('run.cancel')}</button>` : nothing}
            ${['failed', 'canceled'].includes(run.status) ? html`<button class="main" @click=${() => this.change('restart')}>${
                t('run.restart')}</button>` : nothing}</span>` : nothing}</div>${places()}
            <p class="faint facts"><a href="/workflows/${run.workflow}">${run.workflow} v${run.version}</a><span>${moment(run.created_at)}</span>${run.finished_at ? html`<span>${
                span(Date.parse(run.finished_at) - Date.parse(run.created_at))}</span>` : nothing}
            ${run.video_id ? html`<a href="/videos/${run.video_id}">${t('run.video')}</a>` : nothing}
            <a href="/jobs?run=${run.id}">${t('run.jobs', {n: run.jobs.length})}</a></p>
            ${steps.length ? graph(steps, (step) => this.said(step), run.workflow) : nothing}
            <ol class="stages">${steps.map((step) => html`<li data-state=${step.state}>${step.jobs.length === 1
                ? html`<a href="/jobs/${step.jobs[0].id}"><b>${typeName(step.job_type ?? step.key)}</b></a>`
                : html`<b>${typeName(step.job_type ?? step.key)}</b>`} <span class="faint">${this.said(step)} ${
                    step.jobs[0]?.error?.message ?? (step.jobs[0]?.state === 'canceled' ? step.jobs[0].message : null) ?? ''}</span>
                ${step.jobs.length > 1 ? html`<ul>${step.jobs.slice(0, PARTS).map((job) => html`<li><a href="/jobs/${job.id}"><span class="badge ${job.state}">${
                    t(`state.${job.state}`)}</span> ${job.error?.message ?? job.message ?? t('run.job')}</a></li>`)}
                ${step.jobs.length > PARTS ? html`<li><a href="/jobs?run=${run.id}&type=${step.job_type}">${
                    t('hits.more.jobs', {n: count(step.jobs.length - PARTS)})}</a></li>` : nothing}</ul>` : nothing}</li>`)}</ol></div>`;
    }
}
customElements.define('screen-run', RunScreen);
