/* Commands: programs that an installation offers, with a form made of the schema of their arguments. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {isService, Overview} from '../parts/operate.js';
import {empty} from '../parts/states.js';
import {say} from '../parts/toast.js';
import {go, goQuery, queried} from '../router.js';
import {span, t} from '../text.js';

const MINUTE_MS = 60000;
const EXAMPLE = '{"properties": {"days": {"type": "integer"}}}';

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
        // An argument called "remove" hides form.remove(), with which lit would take the form away: it takes the <div>.
        return html`<div><form class="make" @submit=${(event) => this.run(event, command)}>
            ${Object.entries(properties).map(([name, schema]) => this.field(name, schema, required.includes(name)))}
            ${this.fault ? html`<p class="fault" role="alert">${this.fault}</p>` : nothing}
            <p class="actions"><button class="main">${t('command.run')}</button></p></form></div>`;
    }

    async define(event) {
        event.preventDefault();
        const values = Object.fromEntries(new FormData(event.target));
        this.newFault = '';
        try {
            const body = {description: values.description, payload_schema: JSON.parse(values.schema || '{}'), is_public: values.is_public === 'on',
                argv: values.argv.split('\n').map((part) => part.trim()).filter(Boolean), time_limit_ms: Number(values.minutes) * MINUTE_MS};
            await ask(`/definitions/${encodeURIComponent(values.key)}`, {method: 'PUT', body});
            say(t('command.done'));
            event.target.reset();
            this.isDefining = false;
        } catch (problem) {
            this.newFault = problem instanceof SyntaxError ? t('command.json', {why: problem.message}) : problem.text ?? problem.message;
        }
        await this.load();
    }

    /** A form for a command that is not there yet, or is to be another one. */
    definition() {
        return html`<details class="next" ?open=${this.isDefining} @toggle=${(event) => {
            this.isDefining = event.target.open;
        }}><summary class="button">${t('command.new')}</summary><form class="queue make" @submit=${(event) => this.define(event)}>
            <label>${t('command.key')}<input name="key" required pattern="[a-z][a-z0-9\\-]{0,62}" autocomplete="off"></label>
            <label>${t('command.description')}<input name="description" required maxlength="500" autocomplete="off"></label>
            <label>${t('command.minutes')}<input name="minutes" type="number" min="1" max="10080" value="60" required></label>
            <label>${t('command.is_public')}<input name="is_public" type="checkbox"></label>
            <label>${t('command.argv')}<textarea class="code" name="argv" rows="4" required spellcheck="false" placeholder="/usr/bin/…"></textarea></label>
            <label>${t('command.schema')}<textarea class="code" name="schema" rows="4" spellcheck="false" placeholder=${EXAMPLE}></textarea></label>
            ${this.newFault ? html`<p class="fault" role="alert">${this.newFault}</p>` : nothing}
            <p class="actions"><button class="main">${t('command.save')}</button></p></form></details>`;
    }

    card(one) {
        const isOpen = queried('run') === one.key;
        const facts = [t('command.limit', {span: span(one.time_limit_ms)}), one.max_attempts && t('command.attempts', {n: one.max_attempts}),
            t(one.is_public ? 'command.public' : 'command.private')].filter(Boolean);
        return html`<article class="queue" data-id=${one.key}><div class="heading"><h2>${one.key}</h2><span class="badge ${one.is_enabled ? 'done' : 'paused'}">${
                t(`trigger.is.${one.is_enabled ? 'working' : 'paused'}`)}</span></div><p dir="auto">${one.description}</p>
            ${one.argv ? html`<pre>${one.argv.map((part) => (part.add ? `[${part.add.join(' ')}]` : part)).join(' ')}</pre>` : nothing}<p class="faint">${facts.join(' · ')}</p>
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
        return html`${isService() ? this.definition() : nothing}${commands.length ? html`<div class="queues">${commands.map((one) => this.card(one))}</div>`
            : empty('jobs', t('command.none'), t(isService() ? 'command.none.text' : 'command.none.yours'))}`;
    }
}
customElements.define('screen-commands', CommandsScreen);
