/* Ends the mails about a saved search, by the link in them. It asks first, because programs that look at mails open links. */
import {html, nothing} from '../vendor/lit-html.js';
import {enter} from '../api.js';
import {Element} from '../element.js';
import {t} from '../text.js';

class UnsubscribeScreen extends Element {
    fault = '';
    isDone = false;

    connectedCallback() {
        document.title = `${t('unsubscribe')} · cortana`;
        this.update();
    }

    async end() {
        try {
            await enter(`/unsubscribe/${new URLSearchParams(location.hash.slice(1)).get('c')}`, undefined);
            this.isDone = true;
            this.fault = '';
        } catch (problem) {
            this.fault = problem.text;
        }
        this.update();
    }

    view() {
        return html`<div class="page narrow"><div class="heading"><h1>${t('unsubscribe')}</h1></div>
            <p role="status">${t(this.isDone ? 'unsubscribe.done' : 'unsubscribe.text')}</p>
            ${this.fault ? html`<p class="fault" role="alert">${this.fault}</p>` : nothing}
            ${this.isDone ? nothing : html`<p class="actions"><button class="main" @click=${() => this.end()}>${t('unsubscribe.do')}</button></p>`}</div>`;
    }
}
customElements.define('screen-unsubscribe', UnsubscribeScreen);
