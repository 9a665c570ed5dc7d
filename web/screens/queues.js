/* Queues: a card for each kind of work, and whether it gets done. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {Overview} from '../parts/operate.js';
import {typeName} from '../parts/states.js';
import {say} from '../parts/toast.js';
import {count, span, t} from '../text.js';
import '../parts/bulk.js';

const NUMBERS = [['ready', 'queued'], ['running', 'processing'], ['retrying', 'retry'], ['dead', 'failed']];

class QueuesScreen extends Overview {
    get title() {
        return 'nav.queues';
    }

    get sources() {
        return {queues: '/stats/queues', types: '/job-types', workers: '/workers'};
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

    /** What it does, in a word; "nobody" is the one that somebody has to do something about. */
    state(queue, type) {
        const working = this.lists.workers.filter((worker) => worker.job_types.split(/,\s*/).includes(queue.job_type) &&
            worker.state === 'running');
        if (type?.paused_at) {
            return 'paused';
        }
        return queue.running ? 'working' : !queue.ready ? 'idle' : working.length ? 'waiting' : 'nobody';
    }

    card(queue) {
        const type = this.lists.types.find((one) => one.name === queue.job_type);
        const state = this.state(queue, type);
        const link = (name, jobState) => html`<li><a href="/jobs?type=${queue.job_type}&state=${jobState}" class=${
            queue[name] ? name : 'zero'}><b>${count(queue[name])}</b> ${t(`queue.${name}`)}</a></li>`;
        return html`<article class="queue" data-type=${queue.job_type} data-state=${state}>
            <div class="heading"><h2>${typeName(queue.job_type)}</h2><span class="badge ${state}">${t(`queue.is.${state}`)}</span></div>
            ${type?.pause_reason ? html`<p class="faint" dir="auto">${type.pause_reason}</p>` : nothing}
            <ul class="numbers">${NUMBERS.map(([name, jobState]) => link(name, jobState))}</ul>
            <p class="faint">${queue.oldest_ready_seconds ? t('queue.oldest', {span: span(queue.oldest_ready_seconds * 1000)})
                : t('queue.none')}${queue.max_running ? html` · ${t('queue.most', {n: queue.max_running})}` : nothing}</p>
            <p class="actions"><button @click=${() => this.setPaused(queue.job_type, state !== 'paused')}>${
                t(state === 'paused' ? 'queue.resume' : 'queue.pause')}</button>
            ${queue.dead ? html`<button @click=${() => this.querySelector('cv-bulk').open('retry',
                {type: queue.job_type, state: 'failed'})}>${t('queue.retry')}</button>` : nothing}</p></article>`;
    }

    content() {
        const busy = (queue) => queue.ready + queue.running + queue.retrying + queue.dead > 0;
        const all = [...this.lists.queues].sort((a, b) => Number(busy(b)) - Number(busy(a)));
        return html`<div class="queues">${all.map((queue) => this.card(queue))}</div>
            <cv-bulk @cv-changed=${() => this.load()}></cv-bulk>`;
    }
}
customElements.define('screen-queues', QueuesScreen);
