/* What people say about videos: title, description, tags and date of one; tags and a collection for several. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {Element} from '../element.js';
import {t} from '../text.js';
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
    fault = '';

    /** @param {any[]} videos one, or several @param {boolean} [isMany] whether it is a choice of several, also of one */
    async open(videos, isMany = videos.length > 1) {
        Object.assign(this, {videos: [], isMany, fault: '', collections: []});
        this.update();
        await Promise.resolve(); // a new form, which holds nothing of the one before
        this.videos = videos;
        this.update();
        await Promise.resolve();
        this.querySelector('dialog').showModal();
        this.collections = (await ask('/collections', {query: {limit: 200}}).catch(() => ({items: []}))).items;
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

    async changeOne({title, description, tags, recorded}) {
        const [video] = this.videos;
        const before = video.recorded_at?.slice(0, 10) ?? '';
        await ask(`/videos/${video.id}`, {method: 'PATCH', body: {title, description, tags: tagsIn(tags),
            ...recorded === before ? {} : {recorded_at: recorded ? `${recorded}T12:00:00Z` : null}}});
        say(t('words.saved'));
    }

    async changeAll({add, remove}) {
        const {changed, failed} = await ask('/videos/bulk', {method: 'POST', body: {
            ids: this.videos.map((video) => video.id), add_tags: tagsIn(add), remove_tags: tagsIn(remove)}});
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
            <label>${t('words.recorded')} <input type="date" name="recorded" .value=${video.recorded_at?.slice(0, 10) ?? ''}></label>`;
    }

    ofMany() {
        return html`<label>${t('words.add')} <input name="add" dir="auto" aria-describedby="words-commas"></label>
            <label>${t('words.remove')} <input name="remove" dir="auto"></label><small class="faint" id="words-commas">${t('words.commas')}</small>`;
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
