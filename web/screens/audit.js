/* Who changed what, and what was refused. */
import {html, nothing} from '../vendor/lit-html.js';
import {Element} from '../element.js';
import {learnPlaces, places} from '../parts/operate.js';
import {Pages, watchEnd} from '../parts/pages.js';
import {empty, failure, skeleton} from '../parts/states.js';
import {queried} from '../router.js';
import {ago, moment, t} from '../text.js';

class AuditScreen extends Element {
    connectedCallback() {
        this.end = watchEnd(this);
        learnPlaces().then(() => this.update(), () => null); // the list says what is wrong
        this.onAddress();
    }

    disconnectedCallback() {
        this.end.stop();
        this.pages.stop();
    }

    onAddress() {
        document.title = `${t('nav.audit')} · cortana`;
        this.pages?.stop();
        this.pages = new Pages('/audit', {refused: queried('refused') && 'true', user: queried('user'), target: queried('target'), limit: 50},
            () => this.update());
        this.pages.again();
        this.update();
    }

    drawn() {
        this.end.look();
    }

    row(one) {
        return html`<tr><td><span class="badge ${one.status < 400 ? 'done' : 'failed'}">${one.status}</span></td>
            <td><b>${one.operation}</b> <small class="why"><code>${one.method} ${one.path}</code> ${one.reason ?? ''}</small></td>
            <td data-label=${t('audit.who')}>${one.caller} <small class="faint">${t(`role.${one.role}`)}</small></td>
            <td data-label=${t('audit.from')}>${one.address ?? '–'}</td>
            <td data-label=${t('event.time')}><time datetime=${one.at} title=${moment(one.at)}>${ago(one.at)}</time></td></tr>`;
    }

    view() {
        const {items, isAsked, isLoading, next, problem} = this.pages;
        const isRefused = !!queried('refused');
        return html`<div class="page"><div class="heading"><h1>${t('nav.audit')}</h1></div>${places()}
            <nav class="tabs" aria-label=${t('audit.which')}><a href="/audit" aria-current=${isRefused ? nothing : 'true'}>${t('state.all')}</a>
                <a href="/audit?refused=1" aria-current=${isRefused ? 'true' : nothing}>${t('audit.refused')}</a></nav>
            ${items.length ? html`<table><thead><tr><th>${t('job.state')}</th><th>${t('event.what')}</th><th>${t('audit.who')}</th><th>${t('audit.from')}</th>
                <th>${t('event.time')}</th></tr></thead><tbody>${items.map((one) => this.row(one))}</tbody></table>` : nothing}
            ${problem ? failure(problem, () => this.pages.more()) : nothing}
            ${isAsked && !items.length && !problem ? empty('jobs', t('audit.none'), t('audit.none.text')) : nothing}
            ${isLoading ? skeleton('row', items.length ? 2 : 6) : nothing}
            ${next && !isLoading && !problem ? html`<p class="end"><button @click=${() => this.pages.more()}>${t('more')}</button></p>` : nothing}</div>`;
    }
}
customElements.define('screen-audit', AuditScreen);
