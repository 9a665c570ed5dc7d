/* Commands: programs that an installation offers, with a form made of the schema of their arguments. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {isService, Overview} from '../parts/operate.js';
import {empty} from '../parts/states.js';
import {go, goQuery, queried} from '../router.js';
import {span, t} from '../text.js';

/** Whether an argument is there or not. */
const isSwitch = (schema) => schema.type === 'boolean' || schema.const === true;

class CommandsScreen extends Overview {
    fault = '';

    get title() {
        return 'nav.commands';
    }

    get sources() {
        return {commands: '/definitions'};
    }

    async run(event, command) {
        event.preventDefault();
        try {
            const job = await ask('/jobs', {method: 'POST', body: {command: command.key, payload: this.given(event.target, command)}});
            go(`/jobs/${job.id}`);
        } catch (problem) {
            this.fault = problem.text ?? problem.message;
            this.update();
        }
    }

    /** The arguments, of the types that the schema wants. */
    given(form, command) {
        const values = new FormData(form);
        const all = Object.entries(command.payload_schema.properties ?? {}).map(([name, schema]) => {
            const text = values.get(name) ?? '';
            if (isSwitch(schema)) {
                return [name, text === 'on' || undefined];
            }
            switch (schema.type) {
            case 'integer':
            case 'number': return [name, text === '' ? undefined : Number(text)];
            case 'object':
            case 'array': return [name, text === '' ? undefined : JSON.parse(text)];
            default: return [name, text === '' ? undefined : text];
            }
        });
        return Object.fromEntries(all.filter(([, value]) => value !== undefined));
    }

    field(name, schema, isNeeded) {
        const label = html`${name} ${schema.description ? html`<small class="faint" dir="auto">${schema.description}</small>` : nothing}`;
        if (schema.enum) {
            return html`<label>${label}<select name=${name} ?required=${isNeeded}>${isNeeded ? nothing : html`<option value=""></option>`}${
                schema.enum.map((value) => html`<option>${value}</option>`)}</select></label>`;
        }
        if (isSwitch(schema)) {
            return html`<label>${label}<input type="checkbox" name=${name} ?checked=${schema.default}></label>`;
        }
        const isNumber = schema.type === 'integer' || schema.type === 'number';
        return html`<label>${label}<input name=${name} type=${isNumber ? 'number' : 'text'} ?required=${isNeeded} step=${schema.type === 'integer' ? 1 : 'any'}
            min=${schema.minimum ?? nothing} max=${schema.maximum ?? nothing} maxlength=${schema.maxLength ?? nothing}
            value=${schema.default ?? ''} placeholder=${schema.type === 'array' ? '[]' : schema.type === 'object' ? '{}' : ''} autocomplete="off"></label>`;
    }

    form(command) {
        const {properties = {}, required = []} = command.payload_schema;
        return html`<form class="make" @submit=${(event) => this.run(event, command)}>
            ${Object.entries(properties).map(([name, schema]) => this.field(name, schema, required.includes(name)))}
            ${this.fault ? html`<p class="fault" role="alert">${this.fault}</p>` : nothing}
            <p class="actions"><button class="main">${t('command.run')}</button></p></form>`;
    }

    card(one) {
        const isOpen = queried('run') === one.key;
        const facts = [t('command.limit', {span: span(one.time_limit_ms)}), one.max_attempts && t('command.attempts', {n: one.max_attempts}),
            t(one.is_public ? 'command.public' : 'command.private')].filter(Boolean);
        return html`<article class="queue" data-id=${one.key}><div class="heading"><h2>${one.key}</h2><span class="badge ${one.is_enabled ? 'done' : 'paused'}">${
                t(`trigger.is.${one.is_enabled ? 'working' : 'paused'}`)}</span></div><p dir="auto">${one.description}</p>
            ${one.argv ? html`<pre tabindex="0">${one.argv.map((part) => (part.add ? `[${part.add.join(' ')}]` : part)).join(' ')}</pre>` : nothing}<p class="faint">${facts.join(' · ')}</p>
            ${isOpen && one.is_enabled ? this.form(one) : nothing}
            <p class="actions">${one.is_enabled ? html`<button aria-expanded=${isOpen} @click=${() => {
                this.fault = '';
                goQuery({run: isOpen ? null : one.key}, true);
            }}>${t(isOpen ? 'close' : 'command.open')}</button>` : nothing}
            ${isService() ? html`<button @click=${() => this.act(`/definitions/${one.key}`, 'PUT', {is_enabled: !one.is_enabled}, 'command.done')}>${
                t(one.is_enabled ? 'queue.pause' : 'queue.resume')}</button>` : nothing}</p></article>`;
    }

    content() {
        const {commands} = this.lists;
        return commands.length ? html`<div class="queues">${commands.map((one) => this.card(one))}</div>` : empty('jobs', t('command.none'), t('command.none.text'));
    }
}
customElements.define('screen-commands', CommandsScreen);
