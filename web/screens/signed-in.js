/* Where a provider leads back to: hands in what it says, and goes on where the reader was. */
import {html} from '../vendor/lit-html.js';
import {enter} from '../api.js';
import {Element} from '../element.js';
import {skeleton} from '../parts/states.js';
import {t} from '../text.js';

class SignedInScreen extends Element {
    fault = '';

    async connectedCallback() {
        const given = new URLSearchParams(location.search);
        history.replaceState(history.state, '', location.pathname);
        document.title = `${t('signed-in')} · cortana`;
        this.update();
        try {
            if (!given.get('code')) {
                throw new Error(t('signed-in.refused', {reason: given.get('error') ?? '–'}));
            }
            await enter('/session/provider/answer', {state: given.get('state') ?? '', provider_code: given.get('code')});
            const back = sessionStorage.getItem('signed-in') ?? '/';
            sessionStorage.removeItem('signed-in');
            location.replace(back);
        } catch (problem) {
            this.fault = problem.text ?? problem.message;
            this.update();
        }
    }

    view() {
        return html`<div class="page narrow"><div class="heading"><h1>${t(this.fault ? 'signed-in.failed' : 'signed-in')}</h1></div>
            ${this.fault ? html`<p class="fault" role="alert">${this.fault}</p><p><a href="/">${t('home')}</a></p>` : skeleton('row', 2)}</div>`;
    }
}
customElements.define('screen-signed-in', SignedInScreen);
