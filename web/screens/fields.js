/* Which fields of their own the videos of the caller's tenant may have. */
import {html, nothing} from '../vendor/lit-html.js';
import {Overview} from '../parts/operate.js';
import {empty} from '../parts/states.js';
import {t} from '../text.js';

const TYPES = ['text', 'number', 'date', 'choice'];
const COMMA = /\s*,\s*/;

class FieldsScreen extends Overview {
    /** @type {import('../parts/own-fields.js').OwnField[] | null} */ changed = null; // until it is saved

    get title() {
        return 'nav.fields';
    }

    get sources() {
        return {fields: '/fields'};
    }

    get fields() {
        return this.changed ?? this.lists.fields;
    }

    /** @param {any[]} fields */
    change(fields) {
        this.changed = fields;
        this.update();
    }

    /** @param {number} at @param {Partial<import('../parts/own-fields.js').OwnField>} change */
    set(at, change) {
        this.change(this.fields.map((one, n) => (n === at ? {...one, ...change} : one)));
    }

    async add() {
        this.change([...this.fields, {name: '', type: 'text', choices: [], required: false}]);
        await Promise.resolve();
        [...this.querySelectorAll('input[name=name]')].at(-1).focus();
    }

    async save(event) {
        event.preventDefault();
        const fields = this.fields.map(({choices, ...one}) => (one.type === 'choice' ? {...one, choices} : one));
        if (await this.act('/fields', 'PUT', {fields}, 'own.saved')) {
            this.change(null);
        }
    }

    row(one, at) {
        const of = (key) => `${t(key)}: ${one.name}`;
        return html`<tr><td><input name="name" required maxlength="60" pattern="[^=&quot;]+" title=${t('own.name.form')} dir="auto" aria-label=${t('own.name')} .value=${one.name}
                @change=${({target}) => this.set(at, {name: target.value.trim()})}></td>
            <td data-label=${t('own.type')}><select aria-label=${of('own.type')} @change=${({target}) => this.set(at, {type: target.value})}>${TYPES.map((type) => html`<option
                value=${type} .selected=${type === one.type}>${t(`own.type.${type}`)}</option>`)}</select></td>
            <td data-label=${t('own.choices')} class=${one.type === 'choice' ? '' : 'none'}>${one.type === 'choice' ? html`<input required dir="auto" aria-label=${of('own.choices')} placeholder=${t('words.commas')}
                .value=${one.choices.join(', ')} @change=${({target}) => this.set(at, {choices: target.value.split(COMMA).filter(Boolean)})}>` : nothing}</td>
            <td data-label=${t('own.required')}><input type="checkbox" aria-label=${of('own.required')} .checked=${!!one.required} @change=${({target}) => this.set(at, {required: target.checked})}></td>
            <td class="do"><button type="button" class="plain" title=${t('own.remove')} aria-label=${of('own.remove')} @click=${() => this.change(this.fields.filter((_, n) => n !== at))}><cv-icon
                name="trash"></cv-icon></button></td></tr>`;
    }

    content() {
        const {fields} = this;
        return html`<form @submit=${(event) => this.save(event)}><p class="faint">${t('own.text')}</p>
            ${fields.length ? html`<table><thead><tr><th>${t('own.name')}</th><th>${t('own.type')}</th><th>${t('own.choices')}</th><th>${t('own.required')}</th><th>${t('failure.do')}</th></tr></thead>
                <tbody>${fields.map((one, at) => this.row(one, at))}</tbody></table>` : empty('edit', t('own.none'), t('own.none.text'))}
            <p class="actions next"><button type="button" @click=${() => this.add()}>${t('own.add')}</button><button class="main" ?disabled=${!this.changed}>${t('words.save')}</button></p></form>`;
    }
}
customElements.define('screen-fields', FieldsScreen);
