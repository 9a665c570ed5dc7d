/* Queues: a card for each kind of work, and whether it gets done. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {spark, throughput} from '../parts/chart.js';
import {Overview} from '../parts/operate.js';
import {typeName} from '../parts/states.js';
import {say} from '../parts/toast.js';
import {queried} from '../router.js';
import {count, span, t} from '../text.js';
import '../parts/bulk.js';

const NUMBERS = [['ready', 'queued'], ['running', 'processing'], ['retrying', 'retry'], ['dead', 'failed']];
/** Over how long the plot is, and how fine. */
const STRETCHES = {1: {hours: 1, step: 'minute'}, 24: {hours: 24, step: 'hour'}, 168: {hours: 168, step: 'hour'}, 2160: {hours: 2160, step: 'day'}};

class QueuesScreen extends Overview {
    get title() {
        return 'nav.queues';
    }

    get sources() {
        return {queues: '/stats/queues', types: '/job-types'};
    }

    async setPaused(type, isPaused) {
        try {
            await ask(`/job-types/${type}/${isPaused ? 'pause' : 'resume'}`, {method: 'POST',
                ...isPaused && {body: {reason: t('queue.pause.reason')}}});
        } catch (problem) {
            say(problem.text, 'bad');
        }
        this.load();
    }

    card(queue) {
        const {job_type: name, state} = queue;
        const type = this.lists.types.find((one) => one.name === name);
        const points = this.history?.items.find((one) => one.job_type === name)?.points ?? [];
        const link = (number, jobState) => html`<li><a href="/jobs?type=${name}&state=${jobState}" class=${
            queue[number] ? number : 'zero'} aria-label="${count(queue[number])} ${t(`queue.${number}`)}"><b>${count(queue[number])}</b> ${t(`queue.${number}`)}</a></li>`;
        const isMoving = queue.in_per_minute || queue.out_per_minute;
        const facts = [queue.oldest_ready_seconds ? t('queue.oldest', {span: span(queue.oldest_ready_seconds * 1000)}) : t('queue.none'),
            isMoving && t('queue.rates', {in: queue.in_per_minute, out: queue.out_per_minute}),
            queue.empty_in_seconds && t('queue.empty', {span: span(queue.empty_in_seconds * 1000)}),
            queue.run_p95_ms !== null && t('queue.p95', {wait: span(queue.wait_p95_ms), run: span(queue.run_p95_ms)}),
            queue.failed_percent > 0 && t('queue.failures', {share: queue.failed_percent}),
            queue.slots > 0 && t('queue.slots', {n: queue.slots, running: queue.running}),
            queue.max_running && t('queue.most', {n: queue.max_running})].filter(Boolean);
        return html`<article class="queue" data-type=${name} data-state=${state}>
            <div class="heading"><h2>${typeName(name)}</h2><span class="badge ${state}">${t(`queue.is.${state}`)}</span></div>
            ${type?.pause_reason ? html`<p class="faint" dir="auto">${type.pause_reason}</p>` : nothing}
            <ul class="numbers">${NUMBERS.map(([number, jobState]) => link(number, jobState))}</ul>
            ${points.length ? spark(points, this.history) : nothing}
            <p class="faint">${facts.join(' · ')}</p>
            <p class="actions"><button @click=${() => this.setPaused(name, state !== 'paused')}>${
                t(state === 'paused' ? 'queue.resume' : 'queue.pause')}</button>
            ${queue.dead ? html`<button @click=${() => this.querySelector('cv-bulk').open('retry',
                {type: name, state: 'failed'})}>${t('queue.retry')}</button>` : nothing}</p></article>`;
    }

    get stretch() {
        return STRETCHES[queried('over')] ?? STRETCHES['1'];
    }

    async load() {
        const {hours, step} = this.stretch;
        const after = new Date(Date.now() - hours * 3600000).toISOString();
        await Promise.all([super.load(), ask('/stats/throughput', {query: {after, step}}).then((history) => {
            this.history = history;
        }, () => null)]); // cards are worth showing without it
        this.update();
    }

    plot() {
        return html`<div class="heading"><h2>${t('chart')}</h2><nav class="tabs" aria-label=${t('chart.over')}>${Object.keys(STRETCHES).map((over) => html`<a
            href="/queues?over=${over}" aria-current=${STRETCHES[over] === this.stretch ? 'true' : nothing}>${t(`chart.over.${over}`)}</a>`)}</nav></div>
            ${throughput(this.history)}`;
    }

    content() {
        const busy = (queue) => queue.ready + queue.running + queue.retrying + queue.dead > 0;
        const all = [...this.lists.queues].sort((a, b) => Number(busy(b)) - Number(busy(a)));
        return html`${this.history ? this.plot() : nothing}<div class="queues">${all.map((queue) => this.card(queue))}</div>
            <cv-bulk @cv-changed=${() => this.load()}></cv-bulk>`;
    }
}
customElements.define('screen-queues', QueuesScreen);
