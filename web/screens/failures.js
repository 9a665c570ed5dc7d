/* What failed, by its cause: what has failed for good, and every attempt that did; a group is tried again as one. */
import {html, nothing} from '../vendor/lit-html.js';
import {Overview} from '../parts/operate.js';
import {empty, typeName, videoLink} from '../parts/states.js';
import {queried} from '../router.js';
import {ago, count, moment, t} from '../text.js';
import '../parts/bulk.js';

class FailuresScreen extends Overview {
    get title() {
        return 'nav.failures';
    }

    get sources() {
        return {failures: queried('all') ? '/errors' : '/dead-letters'};
    }

    row(one) {
        return html`<tr><td><span class="badge failed">${one.error_type ?? t('failure.unknown')}</span></td>
            <td><a href="/jobs?type=${one.job_type}&state=failed">${typeName(one.job_type)}</a>
                <small class="why" dir="auto">${one.message?.replaceAll(/\{\w+\}/g, '…')}</small></td>
            <td data-label=${t('failure.jobs')}>${count(one.jobs)}</td>
            <td data-label=${t('failure.last')}>${one.last_at ? html`<time datetime=${one.last_at} title=${moment(one.last_at)}>${
                ago(one.last_at)}</time>` : '–'}</td>
            <td data-label=${t('failure.example')}>${videoLink(`/jobs/${one.example}`, one.video, t('failure.see'))}</td>
            <td class="do">${queried('all') ? nothing
                : html`<button @click=${() => this.querySelector('cv-bulk').open('retry', {type: one.job_type, state: 'failed',
                    ...one.error_type && {error: one.error_type}})}>${t('failure.retry')}</button>`}</td></tr>`;
    }

    content() {
        const {failures} = this.lists;
        const isAll = !!queried('all');
        return html`<nav class="tabs" aria-label=${t('failure.which')}><a href="/failures" aria-current=${isAll ? nothing : 'true'}>${t('failure.dead')}</a>
            <a href="/failures?all=1" aria-current=${isAll ? 'true' : nothing}>${t('failure.all')}</a></nav>
            ${failures.length ? html`<table><thead><tr><th>${t('failure.cause')}</th><th>${t('job.type')}</th>
            <th>${t('failure.jobs')}</th><th>${t('failure.last')}</th><th>${t('failure.example')}</th><th>${t('failure.do')}</th></tr></thead>
            <tbody>${failures.map((one) => this.row(one))}</tbody></table>` : empty('jobs', t('failure.none'), t('failure.none.text'))}
            <cv-bulk @cv-changed=${() => this.load()}></cv-bulk>`;
    }
}
customElements.define('screen-failures', FailuresScreen);
