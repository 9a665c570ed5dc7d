/* Rules of each type of work: how urgent, how long, how many at once; changed without a restart. */
import {html} from '../vendor/lit-html.js';
import {Overview} from '../parts/operate.js';
import {typeName} from '../parts/states.js';
import {t} from '../text.js';

/** Numbers of a rule: least, most, and how much of the API's unit is one of the reader's. 0 is no bound, where none may be. */
const NUMBERS = {
    base_priority: {low: 0, high: 10}, max_running: {low: 0, high: 1000000, isBound: true},
    max_running_per_tenant: {low: 0, high: 1000000, isBound: true}, cpu_weight: {low: 1, high: 5},
    time_limit_ms: {low: 1, high: 10080, unit: 60000}, interactive_adjustment: {low: -10, high: 0},
};

class RulesScreen extends Overview {
    get title() {
        return 'nav.rules';
    }

    get sources() {
        return {types: '/job-types'};
    }

    async change(type, name, field) {
        const {unit = 1} = NUMBERS[name] ?? {};
        const value = field.type === 'checkbox' ? field.checked : Math.round(Number(field.value || 0) * unit);
        if (field.checkValidity()) {
            await this.act(`/job-types/${type.name}`, 'PATCH', {[name]: value}, 'rule.done');
            this.shown(field, type.name, name);
        } else {
            field.reportValidity();
        }
    }

    /** What holds, also where a change was refused. */
    shown(field, type, name) {
        const value = this.lists.types.find((one) => one.name === type)?.[name];
        if (field.type === 'checkbox') {
            field.checked = value;
        } else {
            field.value = value === null ? '' : value / (NUMBERS[name].unit ?? 1);
        }
    }

    number(type, name) {
        const {low, high, unit = 1, isBound} = NUMBERS[name];
        return html`<td class="number" data-label=${t(`rule.${name}`)}><input type="number" min=${low} max=${high} step=${unit > 1 ? 'any' : 1}
            ?required=${!isBound} placeholder=${isBound ? t('rule.none') : ''} aria-label="${t(`rule.${name}`)}: ${typeName(type.name)}" name=${name}
            value=${type[name] === null ? '' : type[name] / unit} @change=${(event) => this.change(type, name, event.target)}></td>`;
    }

    row(type) {
        const name = 'put_off_while_interactive';
        return html`<tr data-id=${type.name}><td><b>${typeName(type.name)}</b><small class="why">${type.name}: ${type.description}</small></td>
            ${Object.keys(NUMBERS).map((one) => this.number(type, one))}
            <td data-label=${t(`rule.${name}`)}><input type="checkbox" aria-label="${t(`rule.${name}`)}: ${typeName(type.name)}" name=${name}
                ?checked=${type[name]} @change=${(event) => this.change(type, name, event.target)}></td></tr>`;
    }

    content() {
        return html`<p class="faint">${t('rule.text')}</p><div class="scroll" tabindex="0" role="region" aria-label=${t('nav.rules')}><table class="rules"><thead><tr><th>${t('job.type')}</th>
            ${Object.keys(NUMBERS).map((name) => html`<th class="number">${t(`rule.${name}`)}</th>`)}<th>${t('rule.put_off_while_interactive')}</th></tr></thead>
            <tbody>${this.lists.types.map((type) => this.row(type))}</tbody></table></div>`;
    }
}
customElements.define('screen-rules', RulesScreen);
