/* How long work takes and how often it fails, by what it is or by who did it. */
import {html, nothing} from '../vendor/lit-html.js';
import {Overview} from '../parts/operate.js';
import {empty, typeName} from '../parts/states.js';
import {queried} from '../router.js';
import {count, span, t} from '../text.js';

const HOURS = ['1', '24', '168', '720'];
const BY = ['type', 'worker'];
const TIMES = ['wait_p50_ms', 'wait_p95_ms', 'run_average_ms', 'run_p50_ms', 'run_p95_ms', 'run_p99_ms'];

class PerformanceScreen extends Overview {
    get title() {
        return 'nav.performance';
    }

    get hours() {
        return HOURS.includes(queried('hours')) ? queried('hours') : '24';
    }

    get by() {
        return BY.includes(queried('by')) ? queried('by') : 'type';
    }

    get sources() {
        return {rows: `/stats/performance?hours=${this.hours}&by=${this.by}`};
    }

    row(one) {
        const share = one.attempts ? one.failed / one.attempts * 100 : 0;
        return html`<tr><td><a href="/jobs?type=${one.job_type}">${typeName(one.job_type)}</a></td>
            ${this.by === 'worker' ? html`<td data-label=${t('job.worker')}>${one.worker ?? '–'}</td>` : nothing}
            <td class="number" data-label=${t('performance.attempts')}>${count(one.attempts)}</td>
            <td class="number" data-label=${t('performance.failed')}>${one.failed ? html`<span class="fault">${count(one.failed)} (${count(Math.round(share * 10) / 10)} %)</span>` : '0'}</td>
            ${TIMES.map((name) => html`<td class="number" data-label=${t(`performance.${name}`)}>${span(one[name])}</td>`)}
            <td class="number" data-label=${t('performance.cpu')}>${one.cpu_seconds_a_video_second === null ? '–'
                : count(Math.round(one.cpu_seconds_a_video_second * 100) / 100)}</td></tr>`;
    }

    content() {
        const {rows} = this.lists;
        const tab = (name, value, isOn) => html`<a href="/performance?${new URLSearchParams({hours: this.hours, by: this.by, [name]: value})}"
            aria-current=${isOn ? 'true' : nothing}>${t(`performance.${name}.${value}`)}</a>`;
        return html`<div class="filters"><nav class="tabs" aria-label=${t('chart.over')}>${HOURS.map((hours) => tab('hours', hours, hours === this.hours))}</nav>
            <nav class="tabs" aria-label=${t('performance.by')}>${BY.map((by) => tab('by', by, by === this.by))}</nav></div>
            ${rows.length ? html`<div class="scroll" tabindex="0" role="region" aria-label=${t('nav.performance')}><table><thead><tr><th>${t('job.type')}</th>
                ${this.by === 'worker' ? html`<th>${t('job.worker')}</th>` : nothing}
                ${['attempts', 'failed', ...TIMES, 'cpu'].map((name) => html`<th class="number">${t(`performance.${name}`)}</th>`)}</tr></thead>
                <tbody>${rows.map((one) => this.row(one))}</tbody></table></div><p class="faint">${t('performance.text')}</p>`
                : empty('jobs', t('performance.none'), t('performance.none.text'))}`;
    }
}
customElements.define('screen-performance', PerformanceScreen);
