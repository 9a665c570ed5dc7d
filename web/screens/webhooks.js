/* Webhooks: who is told what happens, and the secret that signs it, shown once. */
import {html, nothing} from '../vendor/lit-html.js';
import {Overview} from '../parts/operate.js';
import {empty} from '../parts/states.js';
import {copy} from '../parts/toast.js';
import {ago, hasText, moment, t} from '../text.js';

class WebhooksScreen extends Overview {
    made = null; // the one that was made last, with its secret

    get title() {
        return 'nav.webhooks';
    }

    get sources() {
        return {webhooks: '/webhooks'};
    }

    async make(event) {
        event.preventDefault();
        const form = event.target;
        const made = await this.act('/webhooks', 'POST', Object.fromEntries(new FormData(form)), 'webhook.make.done');
        if (made) {
            this.made = made;
            form.reset();
            this.update();
        }
    }

    row(one) {
        const state = one.disabled_at ? 'paused' : one.last?.error ? 'failed' : 'working';
        const {last} = one;
        return html`<tr data-id=${one.name}><td><span class="badge ${state === 'working' ? 'done' : state}">${t(`trigger.is.${state}`)}</span></td>
            <td><a href="/webhooks/${one.name}">${one.name}</a> <small class="why"><code>${one.url}</code> ${one.description ?? ''} ${one.disabled_reason ?? ''}</small></td>
            <td data-label=${t('trigger.last')}>${last ? html`<time datetime=${last.at} title=${moment(last.at)}>${ago(last.at)}</time>, ${
                hasText(`state.${last.state}`) ? t(`state.${last.state}`) : last.state} <small class="why fault" dir="auto">${last.error ?? ''}</small>` : t('key.never')}</td></tr>`;
    }

    content() {
        const webhooks = this.listed('webhooks');
        return html`<form class="filters" @submit=${(event) => this.make(event)}>
            <input name="name" required maxlength="60" pattern="[a-z][a-z0-9_.:\\-]*" title=${t('webhook.name.form')} placeholder=${t('trigger.name')} aria-label=${t('trigger.name')} autocomplete="off">
            <input name="url" type="url" required maxlength="2000" size="40" placeholder=${t('webhook.url')} aria-label=${t('webhook.url')} autocomplete="off">
            <button class="main">${t('webhook.make')}</button></form>
            ${this.made ? secret(this.made) : nothing}
            ${webhooks.length ? html`<table><thead><tr><th>${t('job.state')}</th><th>${t('trigger.name')}</th><th>${t('trigger.last')}</th></tr></thead>
                <tbody>${webhooks.map((one) => this.row(one))}</tbody></table>` : empty('link', t('webhook.none'), t('webhook.none.text'))}`;
    }
}
customElements.define('screen-webhooks', WebhooksScreen);

/** The secret of a webhook that was made or given another one. @param {{name: string, secret: string}} one */
export const secret = (one) => html`<div class="why-box" role="status"><h2>${t('webhook.secret', {name: one.name})}</h2><p>${t('key.once')}</p>
    <p class="actions"><code>${one.secret}</code><button @click=${() => copy(one.secret, t('copied'))}>
    <cv-icon name="copy"></cv-icon>${t('copy')}</button></p></div>`;
