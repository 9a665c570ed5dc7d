/* One's own account: the browsers that are signed in, and the password. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, enter, who} from '../api.js';
import {Element} from '../element.js';
import {empty, failure, skeleton} from '../parts/states.js';
import {say} from '../parts/toast.js';
import {ago, moment, t} from '../text.js';

class AccountScreen extends Element {
    fault = '';

    connectedCallback() {
        document.title = `${t('account')} · cortana`;
        this.update();
        this.load();
    }

    async load() {
        try {
            const [me, {items}] = await Promise.all([who(), ask('/sessions')]);
            Object.assign(this, {me, sessions: items, problem: null});
        } catch (problem) {
            this.problem = problem;
        }
        this.update();
    }

    async end(session) {
        await ask(`/sessions/${session.id}`, {method: 'DELETE'}).then(() => say(t('account.session.ended')), (problem) => say(problem.text, 'bad'));
        this.load();
    }

    async changePassword(event) {
        event.preventDefault();
        const given = Object.fromEntries(new FormData(event.target));
        try {
            await enter('/session/password', given, 'PUT');
            event.target.reset();
            this.fault = '';
            say(t('account.password.done'));
        } catch (problem) {
            this.fault = problem.text;
        }
        this.load();
    }

    row(session) {
        return html`<tr data-id=${session.id}><td><b dir="auto">${session.is_this ? t('account.session.this') : session.program ?? '–'}</b>
            <small class="why">${session.address ?? ''}</small></td>
            <td data-label=${t('account.session.used')}><time title=${moment(session.used_at)}>${ago(session.used_at)}</time></td>
            <td>${session.is_this ? nothing : html`<button @click=${() => this.end(session)}>${t('account.session.end')}</button>`}</td></tr>`;
    }

    content() {
        if (!this.me.person) {
            return empty('person', t('account.none'), t('account.none.text'));
        }
        return html`<h2>${t('account.sessions')}</h2>
            <table><thead><tr><th>${t('account.sessions')}</th><th>${t('account.session.used')}</th><th>${t('failure.do')}</th></tr></thead>
            <tbody>${this.sessions.map((one) => this.row(one))}</tbody></table>
            ${this.me.person.has_password ? html`<h2 class="next">${t('account.password')}</h2><form class="fields" @submit=${(event) => this.changePassword(event)}>
                <input type="hidden" autocomplete="username" value=${this.me.person.email}>
                <label>${t('account.password.now')} <input name="password" type="password" required autocomplete="current-password"></label>
                <label>${t('account.password.new')} <input name="new_password" type="password" required minlength="10" maxlength="200" autocomplete="new-password"></label>
                ${this.fault ? html`<p class="fault" role="alert">${this.fault}</p>` : nothing}
                <p class="actions"><button class="main">${t('account.password.change')}</button></p></form>` : nothing}`;
    }

    view() {
        return html`<div class="page narrow"><div class="heading"><h1 dir="auto">${this.me?.person?.name ?? t('account')}</h1></div>
            ${this.problem ? failure(this.problem, () => this.load()) : this.me ? this.content() : skeleton('row', 3)}</div>`;
    }
}
customElements.define('screen-account', AccountScreen);
