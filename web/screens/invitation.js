/* What the link of an invitation offers, or that of a new password. The code leaves the address at once. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, enter, signIn, whoIsSignedIn} from '../api.js';
import {Element} from '../element.js';
import {empty, failure, skeleton} from '../parts/states.js';
import {t} from '../text.js';

class InvitationScreen extends Element {
    fault = '';

    connectedCallback() {
        const given = new URLSearchParams(location.hash.slice(1)).get('c');
        if (given) {
            sessionStorage.setItem('invitation', given); // it is still there when the page is loaded again
            history.replaceState(history.state, '', location.pathname);
        }
        this.code = sessionStorage.getItem('invitation') ?? '';
        document.title = `${t('invitation')} · cortana`;
        this.update();
        this.load();
    }

    onAddress() {
        this.connectedCallback();
    }

    async load() {
        try {
            const [offer, me] = await Promise.all([ask('/invitations/offer', {method: 'POST', body: {code: this.code}}), whoIsSignedIn()]);
            Object.assign(this, {offer, person: me?.person, problem: null, isGone: false});
        } catch (problem) {
            this.isGone = problem.status === 404 || problem.status === 400;
            this.problem = problem;
        }
        this.update();
    }

    /** @param {() => Promise<any>} use uses the link */
    async use(use) {
        try {
            await use();
            sessionStorage.removeItem('invitation');
            location.assign('/');
        } catch (problem) {
            this.fault = problem.text;
            this.update();
        }
    }

    makeAccount(event) {
        event.preventDefault();
        return this.use(() => enter('/invitations/account', {code: this.code, ...Object.fromEntries(new FormData(event.target))}));
    }

    fields() {
        const {role, email} = this.offer;
        return html`${role ? html`<label>${t('invitation.name')} <input name="name" required maxlength="100" autocomplete="name"></label>` : nothing}
            ${role && !email ? html`<label>${t('sign-in.email')} <input name="email" type="email" required maxlength="254" autocomplete="username"></label>`
                : html`<p dir="auto">${email}</p>`}
            <label>${t('account.password.new')} <input name="new_password" type="password" required minlength="10" maxlength="200" autocomplete="new-password"></label>`;
    }

    content() {
        const {role, tenant, created_by: by, name} = this.offer;
        const fault = this.fault ? html`<p class="fault" role="alert">${this.fault}</p>` : nothing;
        if (role && this.person) {
            return html`<p dir="auto">${t('invitation.text', {by, tenant})} ${t('invitation.role', {role: t(`role.${role}`)})}</p>${fault}
                <p class="actions"><button class="main" @click=${() => this.use(() => ask('/invitations/membership', {method: 'POST', body: {code: this.code}}))}>${
                    t('invitation.join', {name: this.person.name})}</button></p>`;
        }
        return html`<p dir="auto">${role ? html`${t('invitation.text', {by, tenant})} ${t('invitation.role', {role: t(`role.${role}`)})}` : t('invitation.renew.text', {name})}</p>
            <form class="fields" @submit=${(event) => this.makeAccount(event)}>${this.fields()}${fault}
            <p class="actions"><button class="main">${t(role ? 'invitation.make' : 'invitation.renew.do')}</button>
            ${role ? html`<button type="button" @click=${() => signIn().then(() => this.load())}>${t('invitation.has')}</button>` : nothing}</p></form>`;
    }

    view() {
        if (this.isGone) {
            return html`<div class="page narrow">${empty('link', t('invitation.gone'), t('invitation.gone.text'), html`<p><a href="/">${t('home')}</a></p>`, true)}</div>`;
        }
        return html`<div class="page narrow"><div class="heading"><h1>${t(this.offer && !this.offer.role ? 'invitation.renew' : 'invitation')}</h1></div>
            ${this.problem ? failure(this.problem, () => this.load()) : this.offer ? this.content() : skeleton('row', 3)}</div>`;
    }
}
customElements.define('screen-invitation', InvitationScreen);
