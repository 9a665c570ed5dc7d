/* Who is signed in, in which tenant, and the ways out. In the header, read when it is opened. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, who} from '../api.js';
import {Element} from '../element.js';
import {t} from '../text.js';
import {asks} from './question.js';
import {say} from './toast.js';

/** The page begins anew, so that nothing of somebody else is left. */
const beginAnew = () => location.assign('/');

class Account extends Element {
    async load() {
        this.me = await who().catch((problem) => say(problem.text, 'bad'));
        this.update();
    }

    async change(path, method, body) {
        try {
            await ask(path, {method, body});
            beginAnew();
        } catch (problem) {
            say(problem.text, 'bad');
        }
    }

    async signOutEverywhere() {
        if (await asks('account.everywhere')) {
            this.change('/sessions', 'DELETE');
        }
    }

    view() {
        if (!this.me) {
            return nothing;
        }
        const {role, person} = this.me;
        return html`<p><b dir="auto">${person ? t('account.menu', {name: person.name}) : t('account.menu', {name: t(`role.${role}`)})}</b>
            ${person ? html`<br><small dir="auto">${person.email} · ${t(`role.${role}`)}</small>` : nothing}</p>
            ${person?.tenants.length > 1 ? html`<label>${t('account.tenant')} <select @change=${({target}) => this.change('/session/tenant', 'PUT',
                {tenant_id: target.value})}>${person.tenants.map((one) => html`<option value=${one.id}
                ?selected=${one.id === person.tenant_id}>${one.name}</option>`)}</select></label>` : nothing}
            ${person ? html`<a href="/account">${t('account.open')}</a>` : nothing}
            <a href="/shares">${t('nav.shares')}</a>
            <button @click=${() => this.change('/session', 'DELETE')}>${t('account.out')}</button>
            ${person ? html`<button @click=${() => this.signOutEverywhere()}>${t('account.everywhere')}</button>` : nothing}`;
    }
}
customElements.define('cv-account', Account);
