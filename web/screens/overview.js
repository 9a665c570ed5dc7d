/* Whether all is well: what needs somebody, what has failed in the last day, and when what waits is done. */
import {html, nothing} from '../vendor/lit-html.js';
import {Overview} from '../parts/operate.js';
import {empty, typeName, videoLink} from '../parts/states.js';
import {ago, count, moment, span, t} from '../text.js';

const CAUSES = 8; // of failures that are shown

class OverviewScreen extends Overview {
    get title() {
        return 'nav.overview';
    }

    get sources() {
        return {queues: '/stats/queues', workers: '/workers', hosts: '/hosts', failures: '/errors?hours=24'};
    }

    /** What needs somebody, each with the way to it. */
    troubles() {
        const {queues, workers, hosts} = this.lists;
        return [
            ...queues.filter((one) => one.state === 'nobody').map((one) => ['/queues', t('overview.nobody', {type: typeName(one.job_type), n: one.ready})]),
            ...queues.filter((one) => one.state === 'paused').map((one) => ['/queues', t('overview.paused', {type: typeName(one.job_type), n: one.ready})]),
            ...workers.filter((one) => one.state === 'stale').map((one) => ['/workers', t('overview.stale', {name: one.id})]),
            ...hosts.filter((one) => ['critical', 'emergency'].includes(one.disk_level)).map((one) => ['/workers', t('overview.disk', {name: one.host,
                share: String(Math.round(one.disk_used_percent))})]),
        ];
    }

    numbers() {
        const {queues} = this.lists;
        const sum = (name) => queues.reduce((all, one) => all + one[name], 0);
        const longest = Math.max(0, ...queues.map((one) => one.empty_in_seconds ?? 0));
        return html`<ul class="queues">${[['running', 'processing'], ['ready', 'queued'], ['dead', 'failed']].map(([name, state]) => html`<li class="queue"><a
            href="/jobs?state=${state}" aria-label="${count(sum(name))} ${t(`queue.${name}`)}"><span class="amount">${count(sum(name))}</span> ${t(`queue.${name}`)}</a>${name === 'ready' && longest
            ? html`<p class="faint">${t('queue.empty', {span: span(longest * 1000)})}</p>` : nothing}</li>`)}</ul>`;
    }

    row(one) {
        return html`<tr><td><span class="badge failed">${one.error_type ?? t('failure.unknown')}</span></td>
            <td>${videoLink(`/jobs/${one.example}`, one.video, typeName(one.job_type))} <small class="why" dir="auto">${one.message?.replaceAll(/\{\w+\}/g, '…')}</small></td>
            <td class="number" data-label=${t('performance.attempts')}>${count(one.attempts)}</td>
            <td data-label=${t('failure.last')}><time datetime=${one.last_at} title=${moment(one.last_at)}>${ago(one.last_at)}</time></td></tr>`;
    }

    content() {
        const troubles = this.troubles();
        const {failures} = this.lists;
        return html`${troubles.length ? html`<section class="why-box"><h2>${t('overview.troubles', {n: troubles.length})}</h2><ul>${troubles.map(([path, text]) => html`<li><a
                href=${path}>${text}</a></li>`)}</ul></section>` : html`<section class="why-box well"><h2>${t('overview.well')}</h2></section>`}
            ${this.numbers()}<div class="heading next"><h2>${t('overview.failures')}</h2><a href="/failures">${t('nav.failures')}</a></div>
            ${failures.length ? html`<table><thead><tr><th>${t('failure.cause')}</th><th>${t('failure.example')}</th><th class="number">${t('performance.attempts')}</th>
                <th>${t('failure.last')}</th></tr></thead><tbody>${failures.slice(0, CAUSES).map((one) => this.row(one))}</tbody></table>`
                : empty('jobs', t('failure.none'), t('failure.none.text'))}`;
    }
}
customElements.define('screen-overview', OverviewScreen);
