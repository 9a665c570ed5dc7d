/* Asks before what cannot be taken back. What can be is done at once, with a button to undo it (deletions.js). */
import {html, render} from '../vendor/lit-html.js';
import {t} from '../text.js';

/**
 * @param {string} name of its texts: NAME.ask, NAME.ask.text, NAME.ask.do; NAME.ask.not, else "Keep"
 * @param {Record<string, any>} [values] of the texts
 * @param {any} [text] in place of NAME.ask.text
 * @returns {Promise<boolean>} whether the reader wants it
 */
export function asks(name, values = {}, text = t(`${name}.ask.text`, values)) {
    const place = document.createElement('div');
    document.body.append(place);
    render(html`<dialog class="sheet" id="question" aria-labelledby="question-title"><form method="dialog">
        <h2 id="question-title">${t(`${name}.ask`, values)}</h2><p>${text}</p>
        <p class="actions"><button autofocus value="">${t(`${name}.ask.not`)}</button>
        <button class="main" value="yes">${t(`${name}.ask.do`)}</button></p></form></dialog>`, place);
    const dialog = place.querySelector('dialog');
    dialog.showModal();
    return new Promise((done) => dialog.addEventListener('close', () => {
        done(dialog.returnValue === 'yes');
        place.remove();
    }));
}
