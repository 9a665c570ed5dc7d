/* Tenants: who has how much to do, and who is made to wait. */
import {html} from '../vendor/lit-html.js';
import {Overview} from '../parts/operate.js';
import {empty} from '../parts/states.js';
import {count, moment, span, t} from '../text.js';

const NUMBERS = {queued: 'queued', running: 'processing', retrying: 'retry', dead: 'failed'}; // → state of jobs

class TenantsScreen extends Overview {
    get title() {
        return 'nav.tenants';
    }

    get sources() {
        return {tenants: '/tenants'};
    }

    row(one) {
        const isPaused = one.paused_at !== null;
        const change = () => this.act(`/tenants/${one.tenant_id}/${isPaused ? 'resume' : 'pause'}`, 'POST',
            isPaused ? undefined : {reason: t('queue.pause.reason')}, `tenant.${isPaused ? 'resume' : 'pause'}.done`);
        return html`<tr data-id=${one.tenant_id}><td><span class="badge ${isPaused ? 'paused' : 'done'}">${t(`trigger.is.${isPaused ? 'paused' : 'working'}`)}</span></td>
            <td><a href="/jobs?tenant=${one.tenant_id}" dir="auto">${one.name ?? html`<code>${one.tenant_id}</code>`}</a> <small class="why" dir="auto">${isPaused ? [one.pause_reason, moment(one.paused_at)].filter(Boolean).join(' · ') : ''}</small></td>
            ${Object.entries(NUMBERS).map(([name, state]) => html`<td class="number" data-label=${t(`tenant.${name}`)}><a
                href="/jobs?tenant=${one.tenant_id}&state=${state}">${count(one[name])}</a></td>`)}
            <td class="number" data-label=${t('tenant.oldest')}>${one.oldest_seconds === null ? '–' : span(one.oldest_seconds * 1000)}</td>
            <td data-label=${t('tenant.zone')}>${one.time_zone === null ? 'UTC' : html`<input aria-label=${t('tenant.zone')} autocomplete="off" list="zones"
                .value=${one.time_zone} @change=${(event) => this.act(`/tenants/${one.tenant_id}`, 'PATCH', {time_zone: event.target.value}, 'tenant.zone.done')}>`}</td>
            <td class="do"><button @click=${change}>${t(isPaused ? 'queue.resume' : 'queue.pause')}</button></td></tr>`;
    }

    content() {
        const tenants = this.lists.tenants.filter((one) => one.tenant_id); // without the limit of all others
        return tenants.length ? html`<table><thead><tr><th>${t('job.state')}</th><th>${t('tenant')}</th>${Object.keys(NUMBERS).map((name) => html`<th
            class="number">${t(`tenant.${name}`)}</th>`)}<th class="number">${t('tenant.oldest')}</th><th>${t('tenant.zone')}</th><th>${t('failure.do')}</th></tr></thead>
            <tbody>${tenants.map((one) => this.row(one))}</tbody></table><datalist id="zones">${Intl.supportedValuesOf('timeZone').map((one) => html`<option
                value=${one}></option>`)}</datalist>` : empty('jobs', t('tenant.none'), t('tenant.none.text'));
    }
}
customElements.define('screen-tenants', TenantsScreen);
