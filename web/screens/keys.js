/* API keys: for scripts and other systems; the secret is shown once. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {Overview} from '../parts/operate.js';
import {asks} from '../parts/question.js';
import {empty} from '../parts/states.js';
import {copy, say} from '../parts/toast.js';
import {ago, day, moment, t} from '../text.js';

const ROLES = ['viewer', 'editor', 'admin'];
const DAYS = [30, 90, 365, 0]; // that a key holds; 0: for ever

class KeysScreen extends Overview {
    made = null; // the key that was made last, with its secret

    get title() {
        return 'nav.keys';
    }

    get sources() {
        return {keys: '/keys'};
    }

    async make(event) {
        event.preventDefault();
        const given = new FormData(event.target);
        const days = Number(given.get('days'));
        try {
            this.made = await ask('/keys', {method: 'POST', body: {name: given.get('name'), role: given.get('role'),
                ...days && {expires_at: new Date(Date.now() + days * 86400000).toISOString()}}});
            event.target.reset();
        } catch (problem) {
            say(problem.text, 'bad');
        }
        this.load();
    }

    async revoke(key) {
        if (await asks('key', {name: key.name})) {
            await this.act(`/keys/${key.id}`, 'DELETE', undefined, 'key.revoke.done');
        }
    }

    row(key) {
        const isOver = key.expires_at && Date.parse(key.expires_at) < Date.now();
        const state = key.revoked_at ? 'revoked' : isOver ? 'over' : 'good';
        return html`<tr data-id=${key.id}><td><span class="badge ${state === 'good' ? 'done' : ''}">${t(`key.${state}`)}</span></td>
            <td><b dir="auto">${key.name}</b> <small class="why"><code>cvk_${key.prefix}_…</code></small></td>
            <td data-label=${t('key.role')}>${t(`role.${key.role}`)}</td>
            <td data-label=${t('key.used')}>${key.last_used_at ? html`<time title=${moment(key.last_used_at)}>${ago(key.last_used_at)}</time>` : t('key.never')}</td>
            <td data-label=${t('key.until')}>${key.expires_at ? day(key.expires_at) : t('key.days.0')}</td>
            <td>${state === 'good' ? html`<button @click=${() => this.revoke(key)}>${t('key.revoke')}</button>` : nothing}</td></tr>`;
    }

    content() {
        const {keys} = this.lists;
        return html`<form class="filters" @submit=${(event) => this.make(event)}>
            <input name="name" required maxlength="100" placeholder=${t('key.name')} aria-label=${t('key.name')} autocomplete="off">
            <label>${t('key.role')} <select name="role">${ROLES.map((role) => html`<option value=${role}>${t(`role.${role}`)}</option>`)}</select></label>
            <label>${t('key.until')} <select name="days">${DAYS.map((days) => html`<option value=${days} ?selected=${days === 90}>${t(`key.days.${days}`)}</option>`)}</select></label>
            <button class="main">${t('key.make')}</button></form>
            ${this.made ? html`<div class="why-box" role="status"><h2>${t('key.made', {name: this.made.name})}</h2><p>${t('key.once')}</p>
                <p class="actions"><code>${this.made.secret}</code><button @click=${() => copy(this.made.secret, t('copied'))}>
                <cv-icon name="copy"></cv-icon>${t('copy')}</button></p></div>` : nothing}
            ${keys.length ? html`<table><thead><tr><th>${t('job.state')}</th><th>${t('key.name')}</th><th>${t('key.role')}</th><th>${t('key.used')}</th>
                <th>${t('key.until')}</th><th>${t('failure.do')}</th></tr></thead><tbody>${keys.map((key) => this.row(key))}</tbody></table>`
                : empty('key', t('key.none'), t('key.none.text'))}`;
    }
}
customElements.define('screen-keys', KeysScreen);
