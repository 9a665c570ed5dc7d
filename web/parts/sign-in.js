/* Asks for e-mail address and password, or a token, wherever the reader is; what they were doing goes on afterwards. */
import {html, nothing} from '../vendor/lit-html.js';
import {enter, useToken} from '../api.js';
import {Element} from '../element.js';
import {t} from '../text.js';

class SignIn extends Element {
    #done = null;
    fault = '';
    note = '';
    providers = [];

    /** Resolves when somebody has signed in. @returns {Promise<void>} */
    ask() {
        this.learnProviders();
        return new Promise((done) => {
            this.#done = done;
            const dialog = this.querySelector('dialog');
            if (!dialog.open) {
                dialog.showModal();
            }
        });
    }

    /** Without the cookie, which may be one that has ended. */
    async learnProviders() {
        const answer = await fetch('/api/v1/providers', {credentials: 'omit'}).catch(() => null);
        this.providers = answer?.ok ? (await answer.json()).items : [];
        this.update();
    }

    /** Goes to a provider, which leads back to /signed-in. @param {string} name */
    async goTo(name) {
        try {
            const {url} = await enter('/session/provider', {provider: name});
            sessionStorage.setItem('signed-in', location.pathname + location.search);
            location.assign(url);
        } catch (problem) {
            this.fault = problem.text;
            this.update();
        }
    }

    /** Has a link for a new password mailed to the address that is typed in. @param {HTMLFormElement} form */
    async askForLink(form) {
        const email = /** @type {HTMLInputElement} */ (form.elements.namedItem('email'));
        this.note = this.fault = '';
        if (email.reportValidity()) {
            try {
                await enter('/session/password/link', {email: email.value});
                this.note = t('sign-in.forgotten.sent', {email: email.value});
            } catch (problem) {
                this.fault = problem.text;
            }
        }
        this.update();
    }

    /** @param {SubmitEvent} event */
    async submit(event) {
        event.preventDefault();
        const form = /** @type {HTMLFormElement} */ (event.target);
        const {token, ...account} = Object.fromEntries(new FormData(form));
        try {
            await (token === undefined ? enter('/session/password', account) : useToken(String(token).trim().replace(/^.*#t=/, '')));
        } catch (problem) {
            this.fault = problem.text;
            this.update();
            return;
        }
        form.reset();
        this.fault = '';
        this.querySelector('dialog').close();
        this.#done?.();
    }

    view() {
        return html`<dialog class="sheet" aria-labelledby="sign-in-title" @cancel=${(event) => event.preventDefault()}>
            <form class="account" @submit=${(event) => this.submit(event)}>
                <h2 id="sign-in-title">${t('sign-in')}</h2>
                <label>${t('sign-in.email')}
                    <input name="email" type="email" autocomplete="username" required></label>
                <label>${t('sign-in.password')}
                    <input name="password" type="password" autocomplete="current-password" required maxlength="200"></label>
                ${this.fault ? html`<p class="fault" role="alert">${this.fault}</p>` : nothing}
                ${this.note ? html`<p role="status">${this.note}</p>` : nothing}
                <button class="main">${t('sign-in')}</button>
                <button type="button" class="plain" @click=${(event) => this.askForLink(event.target.form)}>${t('sign-in.forgotten')}</button>
            </form>
            ${this.providers.map(({name, title}) => html`<p><button class="provider" @click=${() => this.goTo(name)}>${t('sign-in.provider', {title})}</button></p>`)}
            <details><summary>${t('sign-in.otherwise')}</summary>
            <form class="token" @submit=${(event) => this.submit(event)}>
                <p>${t('sign-in.how')} <code>cortana run</code></p>
                <label>${t('sign-in.token')}
                    <input name="token" autocomplete="off" required spellcheck="false"></label>
                <button>${t('sign-in')}</button>
            </form></details></dialog>`;
    }
}
customElements.define('cv-sign-in', SignIn);
