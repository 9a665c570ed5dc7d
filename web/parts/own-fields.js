/* Fields of their own that videos of a tenant may have: in the form of a video, and beside its player. */
import {html} from '../vendor/lit-html.js';

/** @typedef {{name: string, type: 'text' | 'number' | 'date' | 'choice', choices?: string[], required?: boolean}} OwnField */

const PREFIX = 'own:'; // of the inputs' names

/** A value in words. @param {any} value */
export const wordsOf = (value) => (value && typeof value === 'object' ? JSON.stringify(value) : String(value ?? ''));

/** An input for each field. @param {OwnField[]} fields @param {Record<string, any> | null} values of a video; null: of several */
export const inputs = (fields, values) => fields.map(({name, type, choices = [], required}) => {
    const isNeeded = !!required && !!values;
    const value = wordsOf(values?.[name]);
    return html`<label><bdi>${name}</bdi> ${type === 'choice' ? html`<select name=${PREFIX + name} ?required=${isNeeded}><option value=""></option>${choices.map((one) => html`<option
        value=${one} .selected=${one === value}>${one}</option>`)}</select>` : html`<input name=${PREFIX + name} type=${type} step=${type === 'number' ? 'any' : ''}
        ?required=${isNeeded} dir="auto" autocomplete="off" .value=${value}>`}</label>`;
});

/**
 * What the inputs say and the values do not, as the API takes it. An input that was emptied removes its value.
 * @param {OwnField[]} fields @param {Record<string, any>} given by a form @param {Record<string, any>} [values] of a video
 */
export function changes(fields, given, values = {}) {
    const other = fields.filter(({name}) => given[PREFIX + name] !== wordsOf(values[name]));
    return Object.fromEntries(other.map(({name, type}) => {
        const text = given[PREFIX + name];
        return [name, text === '' ? null : type === 'number' ? Number(text) : text];
    }));
}
