/* Rows of a list that are chosen: one by one, from one to another with the shift key, or all that are shown. */
import {html, nothing} from '../vendor/lit-html.js';
import {t} from '../text.js';

export class Choice {
    chosen = new Set(); // ids
    last = ''; // the one that was chosen last

    /** @param {() => any[]} shown the list's items, in their order @param {() => void} changed */
    constructor(shown, changed) {
        this.shown = shown;
        this.changed = changed;
    }

    get size() {
        return this.chosen.size;
    }

    has(id) {
        return this.chosen.has(id);
    }

    /** One more or less; with the shift key all between it and the one before. */
    toggle(event, id) {
        const ids = this.shown().map((one) => one.id);
        const [from, to] = [ids.indexOf(this.last), ids.indexOf(id)].sort((a, b) => a - b);
        for (const one of event.shiftKey && from >= 0 ? ids.slice(from, to + 1) : [id]) {
            this.chosen[event.target.checked ? 'add' : 'delete'](one);
        }
        this.last = id;
        this.changed();
    }

    all(isChosen) {
        this.chosen = new Set(isChosen ? this.shown().map((one) => one.id) : []);
        this.changed();
    }

    /** The box of one row. @param {string} id @param {string} name what is chosen by it */
    box(id, name) {
        return html`<input type="checkbox" .checked=${this.has(id)} aria-label="${t('choose')}: ${name}" @click=${(event) => this.toggle(event, id)}>`;
    }

    /** The box of all rows. */
    boxOfAll() {
        return html`<input type="checkbox" aria-label=${t('choose.all')} .checked=${this.size >= this.shown().length}
            @click=${(event) => this.all(event.target.checked)}>`;
    }

    /** How many are chosen, and what may be done to them. @param {any} actions buttons */
    bar(actions) {
        return this.size ? html`<div class="fresh chosen"><span role="status">${t('chosen', {n: this.size})}</span>${actions}
            <button class="plain" @click=${() => this.all(false)}>${t('choose.none')}</button></div>` : nothing;
    }
}
