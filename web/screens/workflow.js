/* One workflow: its versions, what changed from one to the next, and a new one, which is checked while it is written. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {whenQuiet} from '../element.js';
import {graph} from '../parts/graph.js';
import {isService, Overview} from '../parts/operate.js';
import {empty} from '../parts/states.js';
import {moment, t} from '../text.js';

const SETTLE_MS = 400; // of typing, before the steps are checked

/** What of the steps is other than before. @returns {{[kind: string]: string[]}} keys of steps */
function changes(now, before) {
    const old = new Map(before.map((step) => [step.key, JSON.stringify(step)]));
    const keys = new Set(now.map((step) => step.key));
    return {
        added: now.filter((step) => !old.has(step.key)).map((step) => step.key),
        changed: now.filter((step) => old.has(step.key) && old.get(step.key) !== JSON.stringify(step)).map((step) => step.key),
        removed: before.map((step) => step.key).filter((key) => !keys.has(key)),
    };
}

class WorkflowScreen extends Overview {
    draft = null; // steps that are checked
    fault = '';
    check = whenQuiet((text) => this.tryOut(text), SETTLE_MS);

    get title() {
        return 'nav.workflows';
    }

    get sources() {
        return {versions: `/workflows?name=${this.dataset.id}`};
    }

    /** Has the API check the steps, and shows them. */
    async tryOut(text) {
        [this.draft, this.fault] = [null, ''];
        try {
            const steps = JSON.parse(text);
            await ask('/workflows', {method: 'POST', body: {name: this.dataset.id, steps, dry_run: true}});
            this.draft = steps;
        } catch (problem) {
            this.fault = problem.text ?? problem.message;
        }
        this.update();
    }

    async save() {
        if (await this.act('/workflows', 'POST', {name: this.dataset.id, steps: this.draft}, 'workflow.done')) {
            this.draft = null;
            this.update();
        }
    }

    editor(current) {
        return html`<section><h2 class="next">${t('workflow.change')}</h2><p class="faint">${t('workflow.change.text')}</p>
            <textarea class="code" rows="16" spellcheck="false" aria-label=${t('workflow.change')} .defaultValue=${JSON.stringify(current.steps, null, 2)}
                @input=${(event) => this.check(event.target.value)}></textarea>
            <div role="status">${this.fault ? html`<p class="fault">${this.fault}</p>` : this.draft ? html`${this.differences(this.draft, current.steps)}
                ${graph(this.draft, (step) => step.key, t('workflow.change'))}` : nothing}</div>
            <p class="actions"><button class="main" ?disabled=${!this.draft} @click=${() => this.save()}>${t('workflow.save')}</button></p></section>`;
    }

    differences(now, before) {
        const all = Object.entries(changes(now, before)).filter(([, keys]) => keys.length);
        return html`<p class="faint">${all.length ? all.map(([kind, keys]) => `${t(`workflow.${kind}`)} ${keys.join(', ')}`).join(' · ') : t('workflow.same')}</p>`;
    }

    content() {
        const {versions} = this.lists;
        if (!versions.length) {
            return empty('jobs', t('workflow.none'), t('workflow.none.text'));
        }
        const current = versions.find((one) => one.is_active) ?? versions[0];
        return html`<h2>${this.dataset.id} <small class="faint">${t('workflow.version', {version: current.version, day: moment(current.created_at)})}</small></h2>
            <p class="faint" dir="auto">${current.description ?? ''}</p>${graph(current.steps, (step) => step.key, this.dataset.id)}
            <p class="actions"><a class="button" href="/runs?workflow=${this.dataset.id}">${t('nav.runs')}</a></p>
            <h2 class="next">${t('workflow.versions')}</h2><ol class="stages">${versions.map((one, n) => html`<li><b>v${one.version}</b>
                <span class="faint">${moment(one.created_at)}</span> ${one.is_active ? html`<span class="badge done">${t('workflow.in-use')}</span>` : nothing}
                ${versions[n + 1] ? this.differences(one.steps, versions[n + 1].steps) : nothing}
                <details><summary class="faint">${t('workflow.steps')}</summary><pre tabindex="0" role="group" aria-label=${t('workflow.steps')}>${JSON.stringify(one.steps, null, 2)}</pre></details></li>`)}</ol>
            ${isService() ? this.editor(current) : nothing}`;
    }
}
customElements.define('screen-workflow', WorkflowScreen);
