/* Alerts: what saved searches have found in new videos, and these searches. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {Element} from '../element.js';
import {forgetSaved} from '../parts/saved.js';
import {share} from '../parts/share.js';
import {empty, failure, skeleton} from '../parts/states.js';
import {copy, say} from '../parts/toast.js';
import {searchUrl} from '../query.js';
import {ago, clock, count, moment, t} from '../text.js';

const LINES = 3; // of an alert
const MAILS = ['never', 'at_once', 'hourly', 'daily']; // when its owner is told

const at = (alert, line) => `/videos/${alert.video_id}?t=${line.t_start / 1000}&q=${encodeURIComponent(alert.search.query)}`;

class AlertsScreen extends Element {
    /** @type {any[] | null} */ alerts = null;
    /** @type {any[]} */ searches = [];
    problem = null;

    connectedCallback() {
        document.title = `${t('nav.alerts')} · cortana`;
        this.update();
        this.load();
    }

    onAddress() {
        this.load();
    }

    async load() {
        try {
            const [{items}, saved] = await Promise.all([ask('/alerts'), ask('/saved-searches')]);
            this.alerts = items;
            this.searches = saved.items;
            this.problem = null;
            if (items.some((one) => !one.seen_at)) {
                await ask('/alerts/seen', {method: 'POST', body: {until: items[0].matched_at}});
                forgetSaved();
            }
        } catch (problem) {
            this.problem = problem;
        }
        this.update();
    }

    /** Changes or deletes a saved search. */
    async act(one, method, body) {
        try {
            await ask(`/saved-searches/${one.id}`, {method, body});
            forgetSaved();
        } catch (problem) {
            say(problem.text, 'bad');
        }
        this.load();
    }

    alert(one) {
        const [first] = one.moments;
        const more = one.moments.length - LINES;
        return html`<li class=${one.seen_at ? nothing : 'new'}>
            <a class="shot" href=${at(one, first)} tabindex="-1" aria-hidden="true"><cv-poster
                data-url=${`/api/v1/segments/${first.segment_id}/frame`} data-video=${one.video_id}></cv-poster></a>
            <div><h2><a href=${at(one, first)} dir="auto">${one.video_title ?? t('untitled')}</a>
                ${one.seen_at ? nothing : html`<span class="badge processing">${t('alerts.unseen')}</span>`}</h2>
            <p class="faint"><time datetime=${one.matched_at} title=${moment(one.matched_at)}>${ago(one.matched_at)}</time> ·
                <a href=${searchUrl(one.search.query)} dir="auto">${one.search.name}</a></p>
            <ol>${one.moments.slice(0, LINES).map((line) => html`<li><a href=${at(one, line)}>${clock(line.t_start)}</a> <span dir="auto">${line.text}</span></li>`)}</ol>
            ${more > 0 ? html`<p class="faint">${t('alerts.more', {count: count(more)})}</p>` : nothing}</div></li>`;
    }

    search(one) {
        return html`<tr><td><a href=${searchUrl(one.query)} dir="auto">${one.name}</a> ${one.name === one.query ? nothing : html`<small class="why"><code dir="auto">${one.query}</code></small>`}</td>
            <td data-label=${t('alerts.found')}>${count(one.matches)}</td>
            <td><label><input type="checkbox" .checked=${one.clip} @change=${({target}) => this.act(one, 'PATCH', {clip: target.checked})}> ${t('alerts.clip')}</label></td>
            <td><label><span class="unseen">${t('alerts.mail')}</span><select @change=${({target}) => this.act(one, 'PATCH', {mail: target.value})}>${MAILS.map((when) => html`<option
                value=${when} ?selected=${when === one.mail}>${t(`alerts.mail.${when}`)}</option>`)}</select></label></td>
            <td class="actions"><button @click=${() => copy(`${location.origin}${one.feed_url}?site=${encodeURIComponent(location.origin)}`, t('copied'))}>
                <cv-icon name="copy"></cv-icon>${t('alerts.feed')}</button>
                <button @click=${() => share({kind: 'search', id: one.id, title: one.name})}><cv-icon name="share"></cv-icon>${t('share')}</button>
                <button @click=${() => this.act(one, 'DELETE')}>${t('saved.remove')}</button></td></tr>`;
    }

    content() {
        if (this.problem) {
            return failure(this.problem, () => this.load());
        }
        if (!this.alerts) {
            return skeleton('row', 4);
        }
        return html`${this.alerts.length ? html`<ol class="alerts">${this.alerts.map((one) => this.alert(one))}</ol>`
            : empty('bell', t('alerts.none'), t(this.searches.length ? 'alerts.none.yet' : 'alerts.none.text'))}
            ${this.searches.length ? html`<h2 class="next">${t('saved')}</h2><table><thead><tr><th>${t('saved')}</th><th>${t('alerts.found')}</th><th>${t('clips')}</th><th>${t('alerts.mail')}</th><th></th></tr></thead>
                <tbody>${this.searches.map((one) => this.search(one))}</tbody></table>` : nothing}`;
    }

    view() {
        return html`<div class="page"><div class="heading"><h1>${t('nav.alerts')}</h1></div>${this.content()}</div>`;
    }
}
customElements.define('screen-alerts', AlertsScreen);
