/* One action on many jobs: first how many and which, then the deed, in portions that can be stopped. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {Element} from '../element.js';
import {count, t} from '../text.js';
import {forgetPages} from './pages.js';
import {jobName} from './states.js';
import {say} from './toast.js';

/** Of jobs. Fires cv-changed when some were changed. */
export class Bulk extends Element {
    found = null; // what a dry run said
    changed = 0;
    isRunning = false;
    fault = '';

    /** @param {'retry' | 'cancel'} action @param {Record<string, any>} filter of POST /jobs/bulk, without empty members */
    async open(action, filter) {
        Object.assign(this, {action, filter, found: null, changed: 0, isRunning: false, isStopped: false, fault: ''});
        this.update();
        await Promise.resolve();
        this.querySelector('dialog').showModal();
        try {
            this.found = await this.run(true);
        } catch (problem) {
            this.fault = problem.text;
        }
        this.update();
    }

    /** @param {boolean} isDry how many there are and a few of them; else the next portion, and how many are left */
    async run(isDry) {
        return ask('/jobs/bulk', {method: 'POST', body: {action: this.action, ...this.filter, dry_run: isDry}});
    }

    async start() {
        this.isRunning = true;
        this.update();
        try {
            for (let rest = this.found.matched; rest > 0 && !this.isStopped;) {
                const {matched, changed, rest: left} = await this.run(false);
                this.changed += changed;
                rest = left ?? (changed ? matched - changed : 0);
                this.update();
            }
            say(t(`bulk.${this.action}.done`, {n: this.changed}));
            this.querySelector('dialog').close();
        } catch (problem) {
            this.fault = problem.text;
        }
        this.isRunning = false;
        forgetPages();
        this.dispatchEvent(new CustomEvent('cv-changed'));
        this.update();
    }

    close() {
        this.isStopped = true;
        this.querySelector('dialog').close();
    }

    /** One of the few that are shown. */
    row(job) {
        return html`<span class="badge ${job.state}">${t(`state.${job.state}`)}</span> <a href="/jobs/${job.id}" @click=${() => this.close()}>${
            jobName(job)}</a> <small class="faint" dir="auto">${job.error?.message ?? ''}</small>`;
    }

    content() {
        if (this.fault) {
            return html`<p class="fault" role="alert">${this.fault}</p>`;
        }
        if (!this.found) {
            return html`<p role="status">${t('bulk.counting')}</p>`;
        }
        const {matched, sample} = this.found;
        return html`<p>${t(`bulk.${this.action}.text`, {n: matched})}</p>
            ${this.isRunning ? html`<progress max=${matched} value=${this.changed} aria-label=${t('progress')}></progress>` : nothing}
            ${sample.length ? html`<ul class="sample">${sample.map((one) => html`<li>${this.row(one)}</li>`)}</ul>` : nothing}
            ${matched > sample.length ? html`<p class="faint">${t('bulk.more', {n: matched - sample.length})}</p>` : nothing}`;
    }

    view() {
        return html`<dialog class="sheet wide" aria-labelledby="bulk-title">${this.action ? html`<h2 id="bulk-title">${
            t(`bulk.${this.action}`)}</h2>${this.content()}
            <p class="actions"><button class="main" ?disabled=${!this.found?.matched || this.isRunning || !!this.fault}
                @click=${() => this.start()}>${this.found ? t(`bulk.${this.action}.do`, {n: this.found.matched}) : t(`bulk.${this.action}`)}</button>
            <button @click=${() => this.close()}>${t(this.isRunning ? 'bulk.stop' : 'close')}</button>
            ${this.isRunning ? html`<span class="faint">${count(this.changed)}</span>` : nothing}</p>` : nothing}</dialog>`;
    }
}
customElements.define('cv-bulk', Bulk);
