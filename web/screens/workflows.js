/* Workflows in use: what follows what. */
import {html} from '../vendor/lit-html.js';
import {graph} from '../parts/graph.js';
import {Overview} from '../parts/operate.js';
import {empty} from '../parts/states.js';
import {day, t} from '../text.js';

class WorkflowsScreen extends Overview {
    get title() {
        return 'nav.workflows';
    }

    get sources() {
        return {workflows: '/workflows'};
    }

    content() {
        const {workflows} = this.lists;
        return workflows.length ? workflows.map((one) => html`<section class="group" data-id=${one.name}><h2><a href="/workflows/${one.name}">${one.name}</a>
            <small>${t('workflow.version', {version: one.version, day: day(one.created_at)})}</small></h2><p class="faint" dir="auto">${one.description ?? ''}</p>
            ${graph(one.steps, (step) => step.key, one.name)}</section>`) : empty('jobs', t('workflow.none'), t('workflow.none.text'));
    }
}
customElements.define('screen-workflows', WorkflowsScreen);
