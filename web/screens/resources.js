/* What the system uses: bytes of the store and of the database, and the CPUs of what runs. */
import {html, nothing} from '../vendor/lit-html.js';
import {Overview, tenantName} from '../parts/operate.js';
import {typeName} from '../parts/states.js';
import {count, size, t} from '../text.js';

class ResourcesScreen extends Overview {
    get title() {
        return 'nav.resources';
    }

    get sources() {
        return {resources: '/resources'};
    }

    fact(key, value, more = '') {
        return html`<li class="queue"><h2>${t(key)}</h2><p class="amount">${value}</p><p class="faint">${more}</p></li>`;
    }

    /** Rows with a share of the largest one. */
    shares(title, key, items) {
        const most = Math.max(...items.map((one) => one.bytes), 1);
        return items.length ? html`<section><h2 class="next">${title}</h2><table><thead><tr><th>${t(key)}</th><th class="number">${t('resource.bytes')}</th>
            <th class="number">${t('resource.number')}</th></tr></thead><tbody>${items.map((one) => html`<tr>
            <td>${one.name}<meter min="0" max=${most} value=${one.bytes} aria-hidden="true"></meter></td>
            <td class="number" data-label=${t('resource.bytes')}>${size(one.bytes)}</td>
            <td class="number" data-label=${t('resource.number')}>${count(one.number)}</td></tr>`)}</tbody></table></section>` : nothing;
    }

    content() {
        const {store, database, running, hosts, is_interactive: isInteractive} = this.lists.resources;
        const budget = hosts.reduce((sum, host) => sum + (host.cpu_budget ?? 0), 0);
        const weight = running.reduce((sum, one) => sum + one.cpu_weight, 0);
        const jobs = running.reduce((sum, one) => sum + one.jobs, 0);
        return html`<ul class="queues">
            ${this.fact('resource.originals', size(store.original_bytes), t('resource.videos', {n: store.videos}))}
            ${this.fact('resource.lines', size(store.line_picture_bytes), t('resource.lines.text'))}
            ${this.fact('resource.database', size(database.bytes), t('resource.database.text'))}
            ${this.fact('resource.cpus', budget ? t('resource.cpus.of', {used: weight, n: budget}) : count(weight),
                `${t('resource.jobs', {n: jobs})}${isInteractive ? ` ${t('resource.interactive')}` : ''}`)}</ul>
            ${running.length ? html`<section><h2 class="next">${t('resource.running')}</h2><ul class="chips">${running.map((one) => html`<li><a class="chip"
                href="/jobs?type=${one.job_type}&state=processing">${typeName(one.job_type)} <b>${count(one.jobs)}</b></a></li>`)}</ul></section>` : nothing}
            ${this.shares(t('resource.tenants'), 'tenant', store.tenants.map((one) => (
                {name: one.tenant_id ? tenantName(one.tenant_id, one.name) : t('tenant.nobody'), bytes: one.original_bytes ?? 0, number: one.videos})))}
            ${this.shares(t('resource.tables'), 'resource.table', database.tables.map((one) => (
                {name: one.name, bytes: one.bytes, number: one.estimated_rows})))}`;
    }
}
customElements.define('screen-resources', ResourcesScreen);
