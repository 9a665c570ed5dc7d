/* Runs: what belongs together, a video's way through its stages. */
import {html, nothing} from '../vendor/lit-html.js';
import {Element} from '../element.js';
import {listen} from '../live.js';
import {learnPlaces, places} from '../parts/operate.js';
import {Pages, watchEnd} from '../parts/pages.js';
import {empty, failure, skeleton, videoLink, workflowName} from '../parts/states.js';
import {queried} from '../router.js';
import {ago, moment, span, t} from '../text.js';

const STATUSES = ['', 'running', 'done', 'failed', 'canceled'];

class RunsScreen extends Element {
    connectedCallback() {
        this.end = watchEnd(this);
        this.live = listen(['tenant'], (kind, data) => this.heard(kind, data));
        learnPlaces().then(() => this.update(), () => null); // the list says what is wrong
        this.onAddress();
    }

    disconnectedCallback() {
        this.live.stop();
        this.end.stop();
        this.pages.stop();
    }

    onAddress(isRepeated = false) {
        document.title = `${t('nav.runs')} · cortana`;
        if (isRepeated) {
            this.pages.again();
            return;
        }
        this.pages?.stop();
        this.pages = new Pages('/runs', {status: queried('status'), workflow: queried('workflow'), limit: 50}, () => this.update());
        this.pages.start();
        this.update();
    }

    heard(kind, data) {
        if (kind === 'reset') {
            this.pages.again();
        } else if (kind === 'run') {
            this.pages.items = this.pages.items.map((run) => run.id === data.id ? data : run);
            this.update();
        }
    }

    drawn() {
        this.end.look();
    }

    row(run) {
        const end = run.finished_at ? Date.parse(run.finished_at) : Date.now();
        return html`<tr><td><span class="badge ${run.status}">${t(`run.${run.status}`)}</span></td>
            <td>${videoLink(`/runs/${run.id}`, run.video, `${workflowName(run.workflow)} · v${run.version}`)}</td>
            <td data-label=${t('job.created')} data-column="created"><time datetime=${run.created_at} title=${moment(run.created_at)}>${ago(run.created_at)}</time></td>
            <td data-label=${t('job.ran')} data-column="ran">${span(end - Date.parse(run.created_at))}</td></tr>`;
    }

    view() {
        const {items, isAsked, isLoading, next, problem} = this.pages;
        return html`<div class="page"><div class="heading"><h1>${t('nav.runs')}</h1></div>${places()}
            <nav class="tabs" aria-label=${t('runs.filter')}>${STATUSES.map((status) => html`<a
                href="/runs?${new URLSearchParams({...status && {status}, ...queried('workflow') && {workflow: queried('workflow')}})}" aria-current=${status === queried('status') ? 'true' : nothing}>${
                t(`run.${status || 'all'}`)}</a>`)}</nav>
            ${items.length ? html`<table data-state="shown"><thead><tr><th>${t('job.state')}</th><th>${t('job.video')}</th>
                <th>${t('job.created')}</th><th>${t('job.ran')}</th></tr></thead>
                <tbody>${items.map((run) => this.row(run))}</tbody></table>` : nothing}
            ${problem ? failure(problem, () => this.pages.more()) : nothing}
            ${isAsked && !items.length && !problem && !next ? empty('jobs', t('runs.none'), t('runs.none.text')) : nothing}
            ${isLoading ? skeleton('row', items.length ? 2 : 6) : nothing}
            ${next && !isLoading && !problem ? html`<p class="end"><button @click=${() => this.pages.more()}>${t('more')}</button></p>` : nothing}</div>`;
    }
}
customElements.define('screen-runs', RunsScreen);
