/* Makes a link for people without an account: what it shows, until when, and whether the file may be downloaded. */
import {html, nothing, render} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {clock, t} from '../text.js';
import {copy} from './toast.js';

const AROUND_S = [10, 30, 60, 300]; // of a moment
const DAYS = [1, 7, 30, 0]; // 0: until it is revoked

/**
 * @typedef {{kind: 'video' | 'clip' | 'search', id: string, title: string, video?: string, at?: number, length?: number}} Thing
 * `video` of a clip; `at` and `length` of a video, ms: where it is shown now, and how long it is
 */

/** Where a part begins and ends, ms. @param {Thing} thing @param {number} seconds */
function around({at = 0, length = 0}, seconds) {
    const from = Math.max(Math.round(at - seconds * 500), 0);
    return {from_ms: from, to_ms: Math.max(Math.min(from + seconds * 1000, Math.ceil(length) || Infinity), from + 1)};
}

class Sharing {
    fault = '';
    made = null;
    isPart = false;
    seconds = AROUND_S[0];

    /** @param {Thing} thing */
    constructor(thing) {
        this.thing = thing;
        this.place = document.createElement('div');
        document.body.append(this.place);
        this.draw();
        const dialog = this.place.querySelector('dialog');
        dialog.addEventListener('close', () => this.place.remove());
        dialog.showModal();
        this.learn();
    }

    async learn() {
        const {kind, id, video} = this.thing;
        await this.attempt(async () => {
            this.rule = await ask('/sharing', {query: kind === 'search' ? {search: id} : {video: video ?? id}});
        });
    }

    /** @param {() => Promise<any>} what */
    async attempt(what) {
        this.fault = '';
        try {
            await what();
        } catch (problem) {
            this.fault = problem.text;
        }
        this.draw();
    }

    allow() {
        return this.attempt(async () => {
            await ask(`/tenants/${this.rule.tenant_id}/sharing`, {method: 'PUT', body: {allowed: true}});
            this.rule.allowed = true;
        });
    }

    make(event) {
        event.preventDefault();
        const {days, download} = Object.fromEntries(new FormData(event.target));
        const {kind, id, at} = this.thing;
        const what = kind !== 'video' ? {} : this.isPart ? around(this.thing, this.seconds) : {};
        return this.attempt(async () => {
            this.made = await ask('/shares', {method: 'POST', body: {[`${kind}_id`]: id, ...what, ...kind === 'video' && {at_ms: Math.round(at ?? 0)},
                ...Number(days) && {days: Number(days)}, ...download && {may_download: true}}});
        });
    }

    choose(isPart) {
        this.isPart = isPart;
        this.draw();
    }

    what() {
        const {at = 0, length = 0, kind} = this.thing;
        if (kind !== 'video') {
            return html`<p>${t(`share.what.${kind}`)}</p>`;
        }
        const {from_ms: from, to_ms: to} = around(this.thing, this.seconds);
        return html`<fieldset><legend>${t('share.what')}</legend>
            <label><input type="radio" name="what" .checked=${!this.isPart} @change=${() => this.choose(false)}> ${t('share.whole', {time: clock(at), length: clock(length)})}</label>
            <label><input type="radio" name="what" .checked=${this.isPart} @change=${() => this.choose(true)}> ${t('share.part', {from: clock(from, 1), to: clock(to, 1)})}</label>
            ${this.isPart ? html`<label>${t('share.around')} <select @change=${({target}) => {
                this.seconds = Number(target.value);
                this.draw();
            }}>${AROUND_S.map((one) => html`<option value=${one} ?selected=${one === this.seconds}>${clock(one * 1000)}</option>`)}</select></label>
            <p class="faint">${t('share.part.text')}</p>` : nothing}</fieldset>`;
    }

    form() {
        const isFile = this.thing.kind === 'clip' || (this.thing.kind === 'video' && !this.isPart);
        return html`<form class="fields" @submit=${(event) => this.make(event)}>${this.what()}
            <label>${t('share.days')} <select name="days">${DAYS.map((days) => html`<option value=${days} ?selected=${days === 7}>${t(`share.days.${days}`)}</option>`)}</select></label>
            ${isFile ? html`<label><input type="checkbox" name="download"> ${t('share.download')}</label>` : nothing}
            <p class="actions"><button class="main">${t('share.make')}</button></p></form>`;
    }

    result() {
        const link = location.origin + this.made.link;
        const frame = `<iframe src="${location.origin}${this.made.embed}" width="640" height="400" allow="fullscreen; picture-in-picture" frameborder="0"></iframe>`;
        const line = (key, text) => html`<label>${t(key)} <input readonly dir="ltr" .value=${text} @focus=${({target}) => target.select()}></label>
            <p class="actions"><button type="button" @click=${() => copy(text, t('copied'))}><cv-icon name="copy"></cv-icon>${t('copy')}</button></p>`;
        return html`<div class="fields" role="status"><p>${t('share.made')}</p>${line('share.link', link)}${line('share.embed', frame)}
            <p><a href="/shares" @click=${() => this.close()}>${t('share.all')}</a></p></div>`;
    }

    refused() {
        return html`<p>${t('share.off')}</p>${this.rule.may_change ? html`<p>${t('share.off.text')}</p>
            <p class="actions"><button class="main" @click=${() => this.allow()}>${t('share.allow')}</button></p>` : html`<p>${t('share.off.ask')}</p>`}`;
    }

    close() {
        this.place.querySelector('dialog').close();
    }

    draw() {
        const {rule, made, fault} = this;
        render(html`<dialog class="sheet" id="share" aria-labelledby="share-title"><h2 id="share-title" dir="auto">${t('share.title', {title: this.thing.title})}</h2>
            ${fault ? html`<p class="fault" role="alert">${fault}</p>` : nothing}
            ${made ? this.result() : rule?.allowed ? this.form() : rule ? this.refused() : fault ? nothing : html`<p class="faint">${t('loading')}</p>`}
            <form method="dialog"><button>${t('close')}</button></form></dialog>`, this.place);
    }
}

/** Asks how something is to be shared, and makes the link. @param {Thing} thing */
export const share = (thing) => new Sharing(thing);
