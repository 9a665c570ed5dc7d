/* Workers and the machines they run on. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {line} from '../parts/chart.js';
import {Overview} from '../parts/operate.js';
import {asks} from '../parts/question.js';
import {empty, typeName} from '../parts/states.js';
import {ago, moment, span, t} from '../text.js';

const DAY_MS = 86400000;
const SEEN_MS = 3600000; // over which a disk must have been watched before anything is said of its future
const SAID_DAYS = 365;

/**
 * In how many days a disk is full if it goes on as it did, by the line that fits the looks at it best.
 * @param {{ts: string, used_percent: number}[]} looks the oldest first
 * @returns {number | null} null: it does not fill up, or not for long
 */
function daysUntilFull(looks) {
    const points = looks.map((look) => [Date.parse(look.ts), Number(look.used_percent)]);
    if (points.length < 3 || points.at(-1)[0] - points[0][0] < SEEN_MS) {
        return null;
    }
    const middle = [0, 1].map((n) => points.reduce((sum, point) => sum + point[n], 0) / points.length);
    const over = points.reduce((sum, [at, used]) => sum + (at - middle[0]) * (used - middle[1]), 0);
    const slope = over / points.reduce((sum, [at]) => sum + (at - middle[0]) ** 2, 0); // percent a millisecond
    const days = (100 - points.at(-1)[1]) / slope / DAY_MS;
    return slope > 0 && days <= SAID_DAYS ? Math.ceil(days) : null;
}

class WorkersScreen extends Overview {
    /** @type {Map<string, any[]>} */ looks = new Map(); // at a machine's disk, the oldest first

    get title() {
        return 'nav.workers';
    }

    get sources() {
        return {workers: '/workers', hosts: '/hosts', nodes: '/nodes'};
    }

    async load() {
        await super.load();
        const hosts = this.lists.hosts ?? [];
        await Promise.all(hosts.map(async ({host}) => {
            const {items} = await ask(`/hosts/${encodeURIComponent(host)}/disk`).catch(() => ({items: []})); // the gauge is there without
            this.looks.set(host, items.reverse());
        }));
        this.update();
    }

    async drain({id}) {
        if (await asks('worker', {name: id})) {
            await this.act(`/workers/${encodeURIComponent(id)}/drain`, 'POST', undefined, 'worker.drain.done');
        }
    }

    worker(one) {
        return html`<tr data-id=${one.id}><td><span class="badge ${one.state}">${t(`worker.${one.state}`)}</span></td>
            <td><b>${one.job_types.split(/,\s*/).map(typeName).join(', ')}</b><small class="why">${one.id}</small></td>
            <td data-label=${t('worker.host')}>${one.host}</td>
            <td data-label=${t('worker.slots')}><a href="/jobs?worker=${encodeURIComponent(one.id)}">${one.running} / ${one.slots}</a>
                <progress max=${one.slots} value=${one.running} aria-hidden="true"></progress></td>
            <td data-label=${t('worker.seen')}>${span(one.silent_seconds * 1000)}</td>
            <td data-label=${t('worker.version')}>${one.version ?? '–'}</td>
            <td data-label=${t('worker.since')}><time datetime=${one.started_at} title=${moment(one.started_at)}>${ago(one.started_at)}</time></td>
            <td class="do">${['running', 'waiting', 'starting'].includes(one.state) ? html`<button @click=${() => this.drain(one)}>${
                t('worker.drain')}</button>` : nothing}</td></tr>`;
    }

    host(one) {
        const used = one.disk_used_percent;
        const looks = this.looks.get(one.host) ?? [];
        const full = daysUntilFull(looks);
        return html`<li class="queue"><h3>${one.host}</h3>
            <p class="faint">${one.cpu_budget ? t('host.cpu', {n: one.cpu_budget}) : t('host.cpu.none')}</p>
            ${used === null ? html`<p class="faint">${t('host.disk.none')}</p>` : html`<p>${t('host.disk', {share: Math.round(used)})}
                <span class="badge ${one.disk_level}">${t(`disk.${one.disk_level ?? 'normal'}`)}</span></p>
                <meter min="0" max="100" value=${used} aria-hidden="true"></meter>
                ${full === null ? nothing : html`<p class="full">${t('host.full', {n: full})}</p>`}
                ${looks.length > 1 ? line(looks.map((look) => look.used_percent), 100) : nothing}
                <p class="faint">${t('host.marks')}
                    ${one.disk_checked_at ? ago(one.disk_checked_at) : ''}</p>`}</li>`;
    }

    node(one) {
        return html`<tr data-id=${one.name}><td><span class="badge ${one.awake_state === 'awake' ? 'done' : one.awake_state}">${t(`node.${one.awake_state}`)}</span></td>
            <td><b>${one.name}</b> <small class="why">${one.job_types.map(typeName).join(', ')}</small></td>
            <td data-label=${t('worker.host')}>${one.host}</td>
            <td data-label=${t('worker.running')}>${one.running}${one.max_concurrency ? ` / ${one.max_concurrency}` : ''}</td>
            <td data-label=${t('node.woken')}>${one.woken_at ? html`<time datetime=${one.woken_at} title=${moment(one.woken_at)}>${ago(one.woken_at)}</time>` : t('key.never')}</td>
            <td data-label=${t('worker.seen')}>${one.last_seen ? ago(one.last_seen) : t('key.never')}</td></tr>`;
    }

    content() {
        const {workers, hosts, nodes} = this.lists;
        if (!workers.length) {
            return empty('jobs', t('worker.none'), t('worker.none.text'));
        }
        return html`<div class="scroll" tabindex="0" role="region" aria-label=${t('nav.workers')}><table><thead><tr><th>${t('job.state')}</th><th>${t('worker.does')}</th><th>${t('worker.host')}</th>
            <th>${t('worker.slots')}</th><th>${t('worker.seen')}</th><th>${t('worker.version')}</th><th>${t('worker.since')}</th><th>${t('failure.do')}</th></tr></thead>
            <tbody>${workers.map((one) => this.worker(one))}</tbody></table></div>
            ${hosts.length ? html`<h2 class="next">${t('hosts')}</h2><ul class="queues">${hosts.map((one) => this.host(one))}</ul>` : nothing}
            ${nodes.length ? html`<h2 class="next">${t('nodes')}</h2><table><thead><tr><th>${t('job.state')}</th><th>${t('trigger.name')}</th><th>${t('worker.host')}</th>
                <th>${t('worker.running')}</th><th>${t('node.woken')}</th><th>${t('worker.seen')}</th></tr></thead>
                <tbody>${nodes.map((one) => this.node(one))}</tbody></table>` : nothing}`;
    }
}
customElements.define('screen-workers', WorkersScreen);
