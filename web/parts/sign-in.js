/* Asks for a token, wherever the reader is; what they were doing goes on afterwards. */
import {html, nothing} from '../vendor/lit-html.js';
import {useToken} from '../api.js';
import {Element} from '../element.js';
import {t} from '../text.js';

class SignIn extends Element {
    #done = null;
    fault = '';

    /** Resolves when somebody has signed in. @returns {Promise<void>} */
    ask() {
        return new Promise((done) => {
            this.#done = done;
            const dialog = this.querySelector('dialog');
            if (!dialog.open) {
                dialog.showModal();
            }
        });
    }

    async submit(event) {
        event.preventDefault();
        const field = this.querySelector('input');
        const given = field.value.trim().replace(/^.*#t=/, '');
        try {
            await useToken(given);
        } catch (problem) {
            this.fault = problem.text;
            this.update();
            return;
        }
        field.value = '';
        this.fault = '';
        this.querySelector('dialog').close();
        this.#done?.();
    }

    view() {
        return html`<dialog class="sheet" aria-labelledby="sign-in-title" @cancel=${(event) => event.preventDefault()}>
            <form @submit=${(event) => this.submit(event)}>
                <h2 id="sign-in-title">${t('sign-in')}</h2>
                <p>${t('sign-in.how')} <code>cortana run</code></p>
                <label>${t('sign-in.token')}
                    <input name="token" autocomplete="off" required spellcheck="false"></label>
                ${this.fault ? html`<p class="fault" role="alert">${this.fault}</p>` : nothing}
                <button class="main">${t('sign-in')}</button>
            </form></dialog>`;
    }
}
customElements.define('cv-sign-in', SignIn);
