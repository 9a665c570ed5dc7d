/* Tenants: who has how much to do, and who is made to wait. */
import {html, nothing} from '../vendor/lit-html.js';
import {Overview, tenantName} from '../parts/operate.js';
import {empty} from '../parts/states.js';
import {copy} from '../parts/toast.js';
import {count, moment, span, t} from '../text.js';

const NUMBERS = {queued: 'queued', running: 'processing', retrying: 'retry', dead: 'failed'}; // → state of jobs

class TenantsScreen extends Overview {
    get title() {
        return 'nav.tenants';
    }

    get sources() {
        return {tenants: '/tenants'};
    }

    /** What it is called, as a link or to be written anew; its id is there to be copied. */
    name(one) {
        const name = tenantName(one.tenant_id, one.name);
        const button = (key, icon, press) => html`<button class="plain" title=${t(key, {name})} aria-label=${t(key, {name})} @click=${press}><cv-icon name=${icon}></cv-icon></button>`;
        return this.naming === one.tenant_id ? html`<input maxlength="100" dir="auto" aria-label=${t('tenant.rename', {name})} .value=${one.name ?? ''}
            @change=${({target}) => {
                this.naming = null;
                this.act(`/tenants/${one.tenant_id}`, 'PATCH', {name: target.value.trim()}, 'tenant.rename.done');
            }}
            @blur=${() => this.rename(null)}>` : html`<a href="/jobs?tenant=${one.tenant_id}" dir="auto">${name}</a>${one.time_zone === null && one.name ? nothing
            : button('tenant.rename', 'edit', () => this.rename(one.tenant_id))}${button('tenant.copy', 'copy', () => copy(one.tenant_id, t('copied')))}`;
    }

    async rename(id) {
        this.naming = id;
        this.update();
        await Promise.resolve();
        this.querySelector('td input[maxlength]')?.focus();
    }

    row(one) {
        const isPaused = one.paused_at !== null;
        const change = () => this.act(`/tenants/${one.tenant_id}/${isPaused ? 'resume' : 'pause'}`, 'POST',
            isPaused ? undefined : {reason: t('queue.pause.reason')}, `tenant.${isPaused ? 'resume' : 'pause'}.done`);
        return html`<tr data-id=${one.tenant_id}><td><span class="badge ${isPaused ? 'paused' : 'done'}">${t(`trigger.is.${isPaused ? 'paused' : 'working'}`)}</span></td>
            <td>${this.name(one)} <small class="why" dir="auto">${isPaused ? [one.pause_reason, moment(one.paused_at)].filter(Boolean).join(' · ') : ''}</small></td>
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
