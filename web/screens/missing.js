/* An address that the page does not have. */
import {html} from '../vendor/lit-html.js';
import {Element} from '../element.js';
import {empty} from '../parts/states.js';
import {t} from '../text.js';

class MissingScreen extends Element {
    view() {
        document.title = t('missing');
        return html`<div class="page">${empty('search', t('missing'), t('missing.text'), html`<p><a href="/">${t('home')}</a></p>`, true)}</div>`;
    }
}
customElements.define('screen-missing', MissingScreen);
