/* One schedule or trigger: its next ten times, what came of it, and another time for it. */
import {html, nothing} from '../vendor/lit-html.js';
import {sentenceOf} from '../parts/cron.js';
import {Overview} from '../parts/operate.js';
import {empty, typeName} from '../parts/states.js';
import {go} from '../router.js';
import {ago, moment, momentIn, t} from '../text.js';

const SHOWN = 50; // firings

class ScheduleScreen extends Overview {
    get path() {
        return `/triggers/${this.dataset.id}`;
    }

    get title() {
        return 'nav.schedules';
    }

    get sources() {
        return {trigger: this.path, firings: `${this.path}/firings?limit=${SHOWN}`};
    }

    leave(one) {
        this.remove(one, '/triggers');
        go('/schedules', true);
    }

    change(event) {
        event.preventDefault();
        this.act(this.path, 'PATCH', Object.fromEntries(new FormData(event.target)), 'trigger.change.done');
    }

    form(one) {
        const field = (name) => html`<label>${t(`trigger.${name}`)}<input name=${name} required value=${one[name]} autocomplete="off" spellcheck="false"></label>`;
        return html`<form class="queue make" @submit=${(event) => this.change(event)}>
            ${(one.cron ? ['cron', 'time_zone', 'target'] : ['event', 'target']).map(field)}
            <p class="actions"><button>${t('trigger.change')}</button></p></form>`;
    }

    firing(one) {
        const link = one.run_id ? `/runs/${one.run_id}` : one.job_id && `/jobs/${one.job_id}`;
        return html`<tr><td><span class="badge ${one.outcome === 'fired' ? 'done' : one.outcome}">${t(`firing.${one.outcome}`)}</span></td>
            <td><time datetime=${one.fired_at} title=${ago(one.fired_at)}>${moment(one.fired_at)}</time>
                <small class="why fault" dir="auto">${one.error ?? ''}</small></td>
            <td>${link ? html`<a href=${link}>${t(one.run_id ? 'job.run' : 'run.job')}</a>` : '–'}</td></tr>`;
    }

    content() {
        const {trigger: one, firings} = this.lists;
        const isPaused = one.paused_at !== null;
        return html`<h2><span dir="auto">${one.name}</span> <span class="badge ${isPaused ? 'paused' : one.last_error ? 'failed' : 'done'}">${
                t(`trigger.is.${isPaused ? 'paused' : one.last_error ? 'failed' : 'working'}`)}</span></h2>
            ${one.cron ? html`<p title="${one.cron} ${one.time_zone}">${sentenceOf(one.cron, one.time_zone)}</p>` : nothing}
            <p class="faint" dir="auto">${t(`action.${one.action}`)}: ${typeName(one.target)}. ${one.description ?? ''} ${one.pause_reason ?? ''}</p>
            ${one.last_error ? html`<div class="error-box"><p dir="auto">${one.last_error}</p></div>` : nothing}
            <p class="actions"><button class="main" @click=${() => this.act(`${this.path}/fire`, 'POST', undefined, 'trigger.fire.done')}>${t('trigger.fire')}</button>
                <button @click=${() => this.act(`${this.path}/${isPaused ? 'resume' : 'pause'}`, 'POST', isPaused ? undefined : {reason: t('queue.pause.reason')},
                    `trigger.${isPaused ? 'resume' : 'pause'}.done`)}>${t(isPaused ? 'queue.resume' : 'queue.pause')}</button>
                ${one.is_built_in ? nothing : html`<button @click=${() => this.leave(one)}>${t('trigger.delete')}</button>`}</p>
            ${one.is_built_in ? html`<p class="faint">${t('trigger.built-in')}</p>` : nothing}
            <div class="next">${this.form(one)}</div>
            ${one.instants?.length ? html`<section><h2>${t('trigger.instants')}</h2><ol class="where">${one.instants.map((at) => html`<li><time
                datetime=${at}>${momentIn(at, one.time_zone)}</time> <span class="faint">${ago(at)}</span></li>`)}</ol></section>` : nothing}
            <h2 class="next">${t('firings')}</h2>${firings.length ? html`<table><thead><tr><th>${t('job.state')}</th><th>${t('event.time')}</th><th>${t('trigger.does')}</th></tr></thead>
                <tbody>${firings.map((firing) => this.firing(firing))}</tbody></table>` : empty('jobs', t('firing.none'), t('firing.none.text'))}
            ${Object.keys(one.payload).length || one.filter ? html`<h2 class="next">${t('job.payload')}</h2><pre tabindex="0" role="group" aria-label=${t('job.payload')}>${
                JSON.stringify({...one.filter && {filter: one.filter}, payload: one.payload}, null, 2)}</pre>` : nothing}`;
    }
}
customElements.define('screen-schedule', ScheduleScreen);
