/* People of the caller's tenants: who they are, what they may do, and who is invited. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, who} from '../api.js';
import {isOperator, Overview} from '../parts/operate.js';
import {providers} from '../parts/providers.js';
import {empty} from '../parts/states.js';
import {copy, say} from '../parts/toast.js';
import {ago, day, moment, t} from '../text.js';

const ROLES = ['viewer', 'editor', 'admin'];
const DAYS = [1, 7, 30]; // that an invitation holds

class PeopleScreen extends Overview {
    made = null; // the link that was made last, and for whom

    get title() {
        return 'nav.people';
    }

    get sources() {
        return {people: '/people?limit=200', invitations: '/invitations', ...isOperator() && {providers: '/providers'}};
    }

    async load() {
        this.me = await who().catch(() => null);
        return super.load();
    }

    /** @param {string} path @param {any} body @param {string} [name] whose password is renewed */
    async makeLink(path, body, name) {
        try {
            const {link, expires_at: until, is_mailed: isMailed, email} = await ask(path, {method: 'POST', body});
            this.made = {link: location.origin + link, until, name, to: isMailed ? email : null};
        } catch (problem) {
            say(problem.text, 'bad');
        }
        this.load();
    }

    invite(event) {
        event.preventDefault();
        const {email, role, days} = Object.fromEntries(new FormData(event.target));
        event.target.reset();
        return this.makeLink('/invitations', {role, days: Number(days), ...email && {email}});
    }

    roleOf(person, tenant) {
        const change = ({target}) => this.act(`/people/${person.id}`, 'PATCH', {role: target.value, tenant_id: tenant.id}, 'person.role.done');
        return html`<label>${tenant.name} <select ?disabled=${person.id === this.me?.user_id} @change=${change}>${ROLES.map((role) => html`<option value=${role}
            ?selected=${role === tenant.role}>${t(`role.${role}`)}</option>`)}</select></label>`;
    }

    async changeState(person) {
        const state = person.state === 'active' ? 'disabled' : 'active';
        try {
            await ask(`/people/${person.id}`, {method: 'PATCH', body: {state}});
            say(t(`person.${state}.done`, {name: person.name}));
        } catch (problem) {
            say(problem.text, 'bad');
        }
        this.load();
    }

    actions(person) {
        if (person.id === this.me?.user_id) {
            return html`<a href="/account">${t('account')}</a>`;
        }
        return html`${person.may_change ? html`<button @click=${() => this.makeLink(`/people/${person.id}/password`, undefined, person.name)}>${t('person.renew')}</button>
            <button @click=${() => this.changeState(person)}>${t(person.state === 'active' ? 'person.disable' : 'person.enable')}</button>` : nothing}
            <button @click=${() => this.remove(person, '/people')}>${t('person.remove')}</button>`;
    }

    row(person) {
        return html`<tr data-id=${person.id}><td><span class="badge ${person.state === 'active' ? 'done' : ''}">${t(`person.state.${person.state}`)}</span></td>
            <td><b dir="auto">${person.name}</b> <small class="why" dir="auto">${person.email}${person.is_operator ? ` · ${t('role.operator')}` : ''}</small></td>
            <td data-label=${t('person.tenants')}>${person.tenants.map((tenant) => this.roleOf(person, tenant))}</td>
            <td data-label=${t('person.seen')}>${person.last_seen_at ? html`<time title=${moment(person.last_seen_at)}>${ago(person.last_seen_at)}</time>` : t('person.never')}</td>
            <td class="actions">${this.actions(person)}</td></tr>`;
    }

    content() {
        const people = this.listed('people');
        const invitations = this.listed('invitations');
        const {made} = this;
        return html`<form class="filters" @submit=${(event) => this.invite(event)}>
            <input name="email" type="email" maxlength="254" placeholder=${t('invite.email')} aria-label=${t('invite.email')} autocomplete="off">
            <label>${t('key.role')} <select name="role">${[...ROLES, ...isOperator() ? ['operator'] : []].map((role) => html`<option value=${role}
                ?selected=${role === 'editor'}>${t(`role.${role}`)}</option>`)}</select></label>
            <label>${t('invite.until')} <select name="days">${DAYS.map((days) => html`<option value=${days} ?selected=${days === 7}>${t(`invite.days.${days}`)}</option>`)}</select></label>
            <button class="main">${t('invite.make')}</button></form>
            ${made ? html`<div class="why-box" role="status"><h2>${made.name ? t('invite.renewed', {name: made.name}) : t('invite.made')}</h2>
                <p>${t('invite.made.text', {day: moment(made.until)})} ${made.to ? t('invite.mailed', {email: made.to}) : nothing}</p>
                <p class="actions"><code>${made.link}</code><button @click=${() => copy(made.link, t('copied'))}><cv-icon name="copy"></cv-icon>${t('copy')}</button></p></div>` : nothing}
            ${people.length ? html`<table><thead><tr><th>${t('job.state')}</th><th>${t('person')}</th><th>${t('person.tenants')}</th><th>${t('person.seen')}</th>
                <th>${t('failure.do')}</th></tr></thead><tbody>${people.map((one) => this.row(one))}</tbody></table>` : empty('person', t('person.none'), t('person.none.text'))}
            ${invitations.length ? html`<h2 class="next">${t('invite.open')}</h2><table class="invitations"><tbody>${invitations.map((one) => html`<tr data-id=${one.id}>
                <td dir="auto">${one.email ?? t('invite.anybody')}</td><td>${one.tenant} · ${t(`role.${one.role}`)}</td><td dir="auto">${one.created_by}</td><td>${t('key.until')} ${day(one.expires_at)}</td>
                <td><button @click=${() => this.remove({id: one.id, name: one.email ?? t('invite.anybody')}, '/invitations')}>${t('invite.withdraw')}</button></td></tr>`)}</tbody></table>` : nothing}
            ${this.lists.providers ? providers(this, [...new Map(people.flatMap((one) => one.tenants).map((one) => [one.id, one])).values()]) : nothing}`;
    }
}
customElements.define('screen-people', PeopleScreen);
