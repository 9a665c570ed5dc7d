/* Jobs: what the workers do, did and will do; filters stand in the address. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {Element} from '../element.js';
import {Pages, watchEnd} from '../parts/pages.js';
import {empty, failure, skeleton} from '../parts/states.js';
import {goQuery, queried} from '../router.js';
import {ago, hasText, moment, span, t} from '../text.js';

const STATES = ['', 'processing', 'queued', 'retry', 'failed', 'done', 'canceled'];

export const typeName = (type) => hasText(`stage.${type}`) ? t(`stage.${type}`) : type;
const took = (job) => job.started_at
    ? span((job.finished_at ? Date.parse(job.finished_at) : Date.now()) - Date.parse(job.started_at)) : '–';

class JobsScreen extends Element {
    types = [];

    connectedCallback() {
        this.end = watchEnd(() => this.pages.items.length && this.pages.more());
        this.onAddress();
        ask('/job-types').then((answer) => {
            this.types = answer.items;
            this.update();
        }, () => null); // the list says what is wrong
    }

    disconnectedCallback() {
        this.end.disconnect();
        this.pages.stop();
    }

    onAddress(isRepeated = false) {
        const wishes = {state: queried('state'), type: queried('type'), video: queried('video'), limit: 50};
        document.title = `${t('nav.jobs')} · cortana`;
        if (isRepeated || JSON.stringify(wishes) === this.key) {
            this.pages.again();
        } else {
            this.key = JSON.stringify(wishes);
            this.pages?.stop();
            this.pages = new Pages('/jobs', wishes, () => this.update());
            this.pages.start();
        }
        this.update();
    }

    drawn() {
        const last = this.querySelector('.end');
        this.end.disconnect();
        if (last) {
            this.end.observe(last);
        }
    }

    row(job) {
        return html`<tr data-id=${job.id}><td><span class="badge ${job.state}">${t(`state.${job.state}`)}</span></td>
            <td><a href="/jobs/${job.id}">${typeName(job.job_type)}</a>
            ${job.error?.message ? html`<small class="why" dir="auto">${job.error.message}</small>`
                : job.state === 'processing' ? html`<progress max="1" value=${job.progress} aria-label=${t('progress')}></progress>`
                    : nothing}</td>
            <td data-label=${t('job.created')}><time datetime=${job.created_at} title=${moment(job.created_at)}>${
                ago(job.created_at)}</time></td>
            <td data-label=${t('job.ran')}>${took(job)}</td>
            <td data-label=${t('job.attempt')}>${job.attempt}</td></tr>`;
    }

    view() {
        const {items, isAsked, isLoading, next, problem} = this.pages;
        const state = queried('state');
        return html`<div class="page"><div class="heading"><h1>${t('nav.jobs')}</h1>
                <button @click=${() => this.pages.again()}>${t('refresh')}</button></div>
            <nav class="tabs" aria-label=${t('jobs.filter')}>${STATES.map((name) => html`<a
                href="?${new URLSearchParams({...queried('type') && {type: queried('type')}, ...name && {state: name}})}"
                aria-current=${name === state ? 'true' : nothing}>${t(`state.${name || 'all'}`)}</a>`)}</nav>
            <p class="filters"><label>${t('job.type')} <select @change=${(event) => goQuery({type: event.target.value})}>
                <option value="">${t('state.all')}</option>${this.types.map((type) => html`<option value=${type.name}
                ?selected=${type.name === queried('type')}>${typeName(type.name)}${type.paused_at ? ` (${t('job.paused')})` : ''}
                </option>`)}</select></label>
                ${queried('video') ? html`<button class="chip on" @click=${() => goQuery({video: null})}>${t('job.video.one')}
                    <cv-icon name="close"></cv-icon></button>` : nothing}</p>
            ${items.length ? html`<table data-state="shown"><thead><tr><th>${t('job.state')}</th><th>${t('job.type')}</th>
                <th>${t('job.created')}</th><th>${t('job.ran')}</th><th>${t('job.attempt')}</th></tr></thead>
                <tbody>${items.map((job) => this.row(job))}</tbody></table>` : nothing}
            ${problem ? failure(problem, () => this.pages.more()) : nothing}
            ${isAsked && !items.length && !problem && !next ? empty('jobs', t('jobs.none'), t('jobs.none.text')) : nothing}
            ${isLoading ? skeleton('row', items.length ? 2 : 8) : nothing}
            ${next && !isLoading && !problem ? html`<p class="end"><button @click=${() => this.pages.more()}>${t('more')}
                </button></p>` : nothing}</div>`;
    }
}
customElements.define('screen-jobs', JobsScreen);
