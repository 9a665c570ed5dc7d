/* Schedules and triggers: what begins by itself, when it is next, and what came of it last. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {whenQuiet} from '../element.js';
import {sentenceOf} from '../parts/cron.js';
import {Overview} from '../parts/operate.js';
import {empty, typeName} from '../parts/states.js';
import {ago, moment, t} from '../text.js';

const SETTLE_MS = 300; // of typing, before the instants are asked for
const TARGETS = {run: ['/workflows', 'name'], job: ['/job-types', 'name'], command: ['/definitions', 'key'], webhook: ['/webhooks', 'name']}; // of actions
const EVENTS = ['video.ready', 'video.failed', 'video.deleted', 'job.done', 'job.failed'];
const OFFERED = ['0 * * * *', '0 2 * * *', '0 8 * * mon-fri', '0 4 * * sun', '0 3 1 * *']; // times that are often wanted

class SchedulesScreen extends Overview {
    instants = null;
    targets = []; // names that the chosen action may have as its target
    said = ''; // the times that are typed, as a sentence
    fault = '';
    isMaking = false;
    look = whenQuiet((cron, zone) => this.preview(cron, zone), SETTLE_MS);

    get title() {
        return 'nav.schedules';
    }

    get sources() {
        return {triggers: '/triggers'};
    }

    async preview(cron, zone) {
        [this.instants, this.fault] = [null, ''];
        if (cron.trim()) {
            try {
                this.instants = (await ask('/triggers/preview', {method: 'POST', body: {cron, time_zone: zone}})).items.map((one) => one.at);
            } catch (problem) {
                this.fault = problem.text;
            }
        }
        this.update();
    }

    /** The names that an action may have as its target. */
    async offerTargets(action) {
        const [path, member] = TARGETS[action];
        const {items} = await ask(path).catch(() => ({items: []})); // names can be typed as well
        this.targets = [...new Set(items.map((one) => one[member]))];
        this.update();
    }

    onInput(event) {
        const given = new FormData(event.currentTarget);
        this.said = given.get('cron')?.trim() ? sentenceOf(given.get('cron'), given.get('time_zone')) : '';
        this.look(given.get('cron'), given.get('time_zone'));
    }

    async make(event) {
        event.preventDefault();
        const given = Object.fromEntries([...new FormData(event.target)].filter(([, value]) => value));
        const {time_zone: zone, ...others} = given;
        try {
            await ask('/triggers', {method: 'POST', body: {...others, ...given.cron && {time_zone: zone}}});
            this.isMaking = false;
            this.instants = null;
        } catch (problem) {
            this.fault = problem.text;
        }
        this.load();
    }

    change(trigger, action) {
        this.act(`/triggers/${trigger.id}/${action}`, 'POST', action === 'pause' ? {reason: t('queue.pause.reason')} : undefined, `trigger.${action}.done`);
    }

    form() {
        const field = (name, required, placeholder, offers = []) => html`<label>${t(`trigger.${name}`)}<input name=${name} ?required=${required}
            placeholder=${placeholder} autocomplete="off" spellcheck="false" list="offers-${name}"><datalist id="offers-${name}">${
                offers.map(([value, text]) => html`<option value=${value}>${text}</option>`)}</datalist></label>`;
        const plain = (all) => all.map((one) => [one, one]);
        const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
        return html`<form class="queue make" @input=${(event) => this.onInput(event)} @submit=${(event) => this.make(event)}>
            ${field('name', true, 'nightly-reindex')}${field('cron', false, '30 2 * * mon-fri', OFFERED.map((one) => [one, sentenceOf(one, null)]))}
            <label>${t('trigger.time_zone')}<input name="time_zone" value=${zone === 'UTC' ? 'Etc/UTC' : zone} autocomplete="off" list="zones">
                <datalist id="zones">${Intl.supportedValuesOf('timeZone').map((one) => html`<option value=${one}></option>`)}</datalist></label>
            ${field('event', false, 'video.ready', plain(EVENTS))}
            <label>${t('trigger.action')}<select name="action" @change=${(event) => this.offerTargets(event.target.value)}>${Object.keys(TARGETS).map((action) => html`<option value=${action}>${t(`action.${action}`)}</option>`)}</select></label>
            ${field('target', true, 'reindex', plain(this.targets))}
            ${this.said ? html`<p role="status">${this.said}</p>` : nothing}
            ${this.fault ? html`<p class="fault" role="alert">${this.fault}</p>` : nothing}
            ${this.instants ? html`<div class="where" role="status"><h2>${t('trigger.instants')}</h2>${this.instants.map((at) => html`<time
                datetime=${at}>${moment(at)}</time>`)}</div>` : nothing}
            <p class="actions"><button class="main">${t('trigger.make')}</button></p></form>`;
    }

    row(one) {
        const state = one.paused_at ? 'paused' : one.last_error ? 'failed' : 'working';
        const last = one.last;
        return html`<tr data-id=${one.id}><td><span class="badge ${state === 'working' ? 'done' : state}">${t(`trigger.is.${state}`)}</span></td>
            <td><a href="/schedules/${one.id}" dir="auto">${one.name}</a> <small class="why">${one.cron ? html`<span title="${one.cron} ${one.time_zone}">${sentenceOf(one.cron, one.time_zone)}</span>`
                : html`<code>${one.event}</code>`}${
                [one.description, one.pause_reason ?? one.last_error].filter(Boolean).map((text) => ` · ${text}`)}</small></td>
            <td data-label=${t('trigger.does')}>${t(`action.${one.action}`)}: ${typeName(one.target)}</td>
            <td data-label=${t('trigger.next')}>${one.next_at && !one.paused_at ? html`<time title=${moment(one.next_at)}>${ago(one.next_at)}</time>`
                : one.cron ? '–' : t('trigger.by.event')}</td>
            <td class="do" data-label=${t('trigger.last')}>${last ? html`<a href=${last.run_id ? `/runs/${last.run_id}` : last.job_id ? `/jobs/${last.job_id}` : '/schedules'}>${
                ago(last.fired_at)}, ${last.outcome}</a>` : t('key.never')}</td>
            <td class="do"><button @click=${() => this.change(one, 'fire')}>${t('trigger.fire')}</button>
                <button @click=${() => this.change(one, one.paused_at ? 'resume' : 'pause')}>${t(one.paused_at ? 'queue.resume' : 'queue.pause')}</button>
                ${one.is_built_in ? nothing : html`<button class="plain" title=${t('trigger.delete')} aria-label="${t('trigger.delete')}: ${one.name}"
                    @click=${() => this.remove(one, '/triggers')}><cv-icon name="trash"></cv-icon></button>`}</td></tr>`;
    }

    content() {
        const triggers = this.listed('triggers');
        return html`<p><button aria-expanded=${this.isMaking} @click=${() => {
                this.isMaking = !this.isMaking;
                this.offerTargets('run');
                this.update();
            }}>${t('trigger.new')}</button></p>${this.isMaking ? this.form() : nothing}
            ${triggers.length ? html`<table><thead><tr><th>${t('job.state')}</th><th>${t('trigger.name')}</th><th>${t('trigger.does')}</th><th>${t('trigger.next')}</th>
                <th>${t('trigger.last')}</th><th>${t('failure.do')}</th></tr></thead><tbody>${triggers.map((one) => this.row(one))}</tbody></table>`
                : empty('jobs', t('trigger.none'), t('trigger.none.text'))}`;
    }
}
customElements.define('screen-schedules', SchedulesScreen);
