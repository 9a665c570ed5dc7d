/* What people say about videos: title, description, tags, date and own fields of one; tags, own fields and a collection for several. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {Element} from '../element.js';
import {t} from '../text.js';
import {changes, inputs} from './own-fields.js';
import {titleOf} from './states.js';
import {say} from './toast.js';

const SEPARATOR = /\s*,\s*/;

/** "sea, night walk" @param {any} text @returns {string[]} */
function tagsIn(text) {
    return String(text ?? '').split(SEPARATOR).map((tag) => tag.trim()).filter(Boolean);
}

/** Fires cv-changed when they are changed. */
class VideoWords extends Element {
    videos = [];
    collections = [];
    /** @type {import('./own-fields.js').OwnField[]} */ fields = [];
    fault = '';

    /** @param {any[]} videos one, or several @param {boolean} [isMany] whether it is a choice of several, also of one */
    async open(videos, isMany = videos.length > 1) {
        Object.assign(this, {videos: [], isMany, fault: '', collections: [], fields: []});
        this.update();
        await Promise.resolve(); // a new form, which holds nothing of the one before
        this.videos = videos;
        this.update();
        await Promise.resolve();
        this.querySelector('dialog').showModal();
        const none = {items: []};
        const fields = ask('/fields', {query: {video: videos[0].id}}).catch(() => none);
        this.collections = (await ask('/collections', {query: {limit: 200}}).catch(() => none)).items;
        this.fields = (await fields).items;
        this.update();
    }

    async save(event) {
        event.preventDefault();
        const given = Object.fromEntries(new FormData(event.target));
        try {
            await (this.isMany ? this.changeAll(given) : this.changeOne(given));
            await this.collect(given);
        } catch (problem) {
            this.fault = problem.text;
            this.update();
            return;
        }
        this.querySelector('dialog').close();
        this.dispatchEvent(new CustomEvent('cv-changed'));
    }

    async changeOne({title, description, tags, recorded, ...given}) {
        const [video] = this.videos;
        const before = video.recorded_at?.slice(0, 10) ?? '';
        const fields = changes(this.fields, given, video.fields);
        await ask(`/videos/${video.id}`, {method: 'PATCH', body: {...Object.keys(fields).length && {fields}, title, description, tags: tagsIn(tags),
            ...recorded === before ? {} : {recorded_at: recorded ? `${recorded}T12:00:00Z` : null}}});
        say(t('words.saved'));
    }

    async changeAll({add, remove, ...given}) {
        const fields = changes(this.fields, given);
        const {changed, failed} = await ask('/videos/bulk', {method: 'POST', body: {
            ...Object.keys(fields).length && {fields}, ids: this.videos.map((video) => video.id), add_tags: tagsIn(add), remove_tags: tagsIn(remove)}});
        say(t('words.saved.all', {n: changed}));
        if (failed.length) {
            say(failed[0].detail, 'bad');
        }
    }

    /** Into a collection that there is, or into a new one. */
    async collect({collection, name}) {
        const ids = this.videos.map((video) => video.id);
        if (name?.trim()) {
            await ask('/collections', {method: 'POST', body: {name: name.trim(), videos: ids}});
        } else if (collection) {
            await ask(`/collections/${collection}/videos`, {method: 'POST', body: {add: ids}});
        }
    }

    ofOne() {
        const [video] = this.videos;
        return html`<label>${t('words.title')} <input name="title" maxlength="300" dir="auto" .value=${video.title ?? ''} placeholder=${video.name ?? ''}></label>
            <label>${t('words.description')} <textarea name="description" maxlength="5000" rows="3" dir="auto" .value=${video.description ?? ''}></textarea></label>
            <label>${t('words.tags')} <input name="tags" dir="auto" .value=${video.tags.join(', ')} aria-describedby="words-commas"></label>
            <small class="faint" id="words-commas">${t('words.commas')}</small>
            <label>${t('words.recorded')} <input type="date" name="recorded" .value=${video.recorded_at?.slice(0, 10) ?? ''}></label>${inputs(this.fields, video.fields)}`;
    }

    ofMany() {
        return html`<label>${t('words.add')} <input name="add" dir="auto" aria-describedby="words-commas"></label>
            <label>${t('words.remove')} <input name="remove" dir="auto"></label><small class="faint" id="words-commas">${t('words.commas')}</small>${inputs(this.fields, null)}`;
    }

    view() {
        const [video] = this.videos;
        return html`<dialog class="sheet" aria-labelledby="words-of">${video ? html`<form @submit=${(event) => this.save(event)}>
            <h2 id="words-of" dir="auto">${this.isMany ? t('words.of.all', {n: this.videos.length}) : titleOf(video)}</h2>
            ${this.isMany ? this.ofMany() : this.ofOne()}
            <label>${t('words.collection')} <select name="collection"><option value="">–</option>${this.collections.map((one) => html`<option
                value=${one.id}>${one.name}</option>`)}</select></label>
            <label>${t('words.collection.new')} <input name="name" maxlength="200" dir="auto"></label>
            ${this.fault ? html`<p class="fault" role="alert">${this.fault}</p>` : nothing}
            <p class="actions"><button type="button" @click=${() => this.querySelector('dialog').close()}>${t('close')}</button>
            <button class="main">${t('words.save')}</button></p></form>` : nothing}</dialog>`;
    }
}
customElements.define('cv-video-words', VideoWords);
