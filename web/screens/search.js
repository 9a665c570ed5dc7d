/* Search: what was found, by video; without a query, the way in. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, who} from '../api.js';
import {Element} from '../element.js';
import {isLeaving} from '../parts/deletions.js';
import {exportMenu} from '../parts/export.js';
import {facetList, NARROWING} from '../parts/facets.js';
import {Pages, watchEnd} from '../parts/pages.js';
import {saveButton, savedList} from '../parts/saved.js';
import {card, empty, failure, skeleton} from '../parts/states.js';
import {unsearched} from '../parts/unread.js';
import {firstHits, isWithoutWords, searchUrl, takeApart, without} from '../query.js';
import {findPlace, goQuery, queried} from '../router.js';
import {t} from '../text.js';
import '../parts/reel.js';
import '../parts/result.js';

const SORTS = ['rank', 'time', 'newest'];
const EXAMPLES = 4; // names, and as many tags
const RECENT = 12; // videos on the first page
const HINTS = 5; // parts of a query that are tried to be left out

class SearchScreen extends Element {
    hints = null;

    connectedCallback() {
        this.end = watchEnd(this);
        this.redraw = () => this.update();
        addEventListener('cv-leaving', this.redraw);
        this.put = ({detail}) => this.putVideo(detail);
        addEventListener('cv-video', this.put);
        this.keys = (event) => this.onKey(event);
        document.addEventListener('keydown', this.keys);
        this.onAddress();
    }

    disconnectedCallback() {
        document.removeEventListener('keydown', this.keys);
        removeEventListener('cv-leaving', this.redraw);
        removeEventListener('cv-video', this.put);
        this.end.stop();
        this.pages?.stop();
    }

    onAddress(isRepeated = false) {
        const query = queried('q').trim();
        const wishes = firstHits(query, Object.fromEntries(['sort', ...Object.keys(NARROWING)].map((name) => [name, queried(name)])));
        const key = JSON.stringify(wishes);
        document.title = query ? `${query} · cortana` : 'cortana';
        if (isRepeated) {
            this.pages.again();
        } else if (this.key !== key) {
            this.key = key;
            this.hints = null;
            this.isRestored = false;
            this.pages?.stop();
            this.pages = query && !isWithoutWords(query) ? new Pages('/search', wishes, () => this.changed())
                : new Pages('/videos', {limit: RECENT}, () => this.changed());
            this.pages.start();
        }
        this.update();
    }

    changed() {
        this.update();
        if (this.pages.path === '/search' && this.pages.isAsked && !this.pages.items.length && !this.hints) {
            this.findHints();
        }
    }

    /** Somebody has changed a video here. */
    putVideo(video) {
        this.pages.items = this.pages.items.map((one) => (one.id === video.id ? video
            : one.video?.id === video.id ? {...one, video: {...one.video, ...video}} : one));
        this.update();
    }

    /** Which parts of the query may go, so that something is found. */
    async findHints() {
        const query = queried('q');
        const parts = takeApart(query).slice(0, HINTS);
        this.hints = [];
        if (parts.length < 2) {
            return;
        }
        for (const part of parts) {
            const shorter = without(query, part.text);
            const answer = await ask('/search', {query: {q: shorter, limit: 1}}).catch(() => null);
            if (answer?.items.length) {
                this.hints.push({left: part.text, query: shorter});
                this.update();
            }
        }
    }

    onKey(event) {
        const step = {ArrowDown: 1, j: 1, ArrowUp: -1, k: -1}[event.key];
        const links = [...this.querySelectorAll('a.hit')];
        const at = links.indexOf(document.activeElement);
        if (!step || event.target.closest('input') || at + step < 0 || !links.length) {
            return;
        }
        event.preventDefault();
        links[Math.min(at + step, links.length - 1)].focus();
    }

    drawn() {
        this.end.look();
        if (!this.isRestored && this.pages.isStarted) {
            this.isRestored = true;
            findPlace();
        }
    }

    chips(query) {
        const parts = takeApart(query).filter((part) => part.field || part.isLeftOut);
        return html`<div class="chips">
            ${parts.map((part) => html`<a class="chip on" href=${searchUrl(without(query, part.text))}
                title=${t('chip.remove', {text: part.text})}><b>${
                part.field ? t(`field.name.${part.field}`) : t('field.not')}</b> ${part.value}
                <cv-icon name="close"></cv-icon></a>`)}</div>`;
    }

    nothingFound(query) {
        return empty('search', t('none', {query}), t('none.tried'), html`
            ${this.hints?.length ? html`<ul class="hints">${this.hints.map((hint) => html`<li><a
                href=${searchUrl(hint.query)}>${t('none.without', {text: hint.left})}</a></li>`)}</ul>` : nothing}
            ${Object.keys(NARROWING).some(queried) ? html`<p><button @click=${() => goQuery(
                Object.fromEntries(Object.keys(NARROWING).map((name) => [name, null])))}>${t('none.kind')}</button></p>` : nothing}
            ${unsearched(this.pages.first?.unread)}
            <p class="faint">${t('none.reading')} <a href="/videos?status=processing">${t('nav.library')}</a></p>`);
    }

    /** How many there are, their order, and what else to do with them. */
    head() {
        const {items, isAsked, first} = this.pages;
        const said = !isAsked || !items.length ? nothing : t(first?.capped ? 'results.capped' : 'results', {n: first.of});
        return html`<div class="head"><p class="faint" role="status">${said}</p>
            ${saveButton(() => this.update())}
            ${items.length ? html`${exportMenu(this.pages.query)}<cv-reel .wishes=${this.pages.query}></cv-reel>` : nothing}
            ${items.length ? html`<label class="faint">${t('sort')} <select @change=${(event) => goQuery({sort: event.target.value})}>${SORTS.map((sort) => html`<option
                value=${sort} ?selected=${(queried('sort') || SORTS[0]) === sort}>${t(`sort.${sort}`)}</option>`)}</select></label>` : nothing}</div>`;
    }

    results() {
        const {items, isAsked, isLoading, next, problem, first} = this.pages;
        const query = queried('q');
        const isPlain = !items.length && !isLoading && !Object.keys(NARROWING).some(queried); // there is nothing to narrow down, or to save
        return html`<div class="page finding ${isPlain ? 'plain' : ''}">
            <h1 class="unseen">${t('results.of', {query})}</h1>
            ${isPlain ? nothing : facetList(first)}${this.chips(query)}${isPlain ? nothing : this.head()}
            <div class="results" data-state=${isAsked ? 'shown' : 'loading'}>
            ${items.filter((group) => !isLeaving(group.video.id)).map((group) => html`<cv-result .wishes=${this.pages.query} .group=${group}></cv-result>`)}</div>
            ${problem ? failure(problem, () => this.pages.more()) : nothing}
            ${isAsked && !items.length && !problem ? this.nothingFound(query) : nothing}
            ${isLoading ? skeleton('row', items.length ? 2 : 6) : nothing}
            ${next && !isLoading && !problem ? html`<p class="end"><button @click=${() => this.pages.more()}>${t('more')}
                </button></p>` : nothing}</div>`;
    }

    /** Names or tags of the library, where a sign alone was typed. */
    handles(query) {
        const sign = takeApart(query).find((part) => ['@', '#'].includes(part.text))?.text;
        if (sign && this.asked !== query) {
            this.asked = query;
            this.names = [];
            ask('/search/suggest', {query: {q: sign}}).then(({items}) => {
                this.names = items.map((one) => one.text);
                this.update();
            }, () => null);
        }
        return sign ? html`<ul class="chips examples">${this.names.map((name) => html`<li><a class="chip" dir="auto" href=${searchUrl(name)}>${name}</a></li>`)}</ul>` : nothing;
    }

    /** There is a field, but no word yet. */
    withoutWords(query) {
        return html`<div class="page finding"><h1 class="unseen">${t('search')}</h1>${this.chips(query)}
            ${empty('search', t('words'), t('words.text'), this.handles(query))}</div>`;
    }

    /** Who has no videos yet is asked for one; for the others there are names and tags of theirs to search for. */
    async welcome() {
        this.isWelcomed = true;
        if (this.pages.items.length) {
            const found = await Promise.all(['@', '#'].map((sign) => ask('/search/suggest', {query: {q: sign}}).catch(() => ({items: []}))));
            this.examples = found.flatMap(({items}) => items.slice(0, EXAMPLES).map((one) => one.text));
        } else {
            const me = await who().catch(() => null);
            this.mayUpload = !!me?.user_id && me.role !== 'viewer';
            await (this.mayUpload && import('../parts/uploads.js'));
        }
        this.update();
    }

    noVideos() {
        return this.mayUpload ? html`<cv-uploads></cv-uploads><button class="drop-field" @click=${() => this.querySelector('cv-uploads').choose()}>
            <cv-icon name="upload"></cv-icon><b>${t('start.drop')}</b><span>${t('start.drop.text')}</span></button>`
            : empty('film', t('library.empty'), t('library.empty.text'));
    }

    start() {
        const {items, isAsked, problem} = this.pages;
        if (isAsked && !this.isWelcomed) {
            this.welcome();
        }
        return html`<div class="start"><h1>${t('start.title')}</h1><p>${t('start.text')}</p>
            <cv-search-box></cv-search-box>${this.examples?.length ? html`<ul class="chips examples" aria-label=${t('start.examples')}>${this.examples.map((text) => html`<li><a
                class="chip" dir="auto" href=${searchUrl(text)}>${text}</a></li>`)}</ul>` : nothing}${savedList(() => this.update())}</div>
            <div class="page"><div class="heading"><h2>${t('start.recent')}</h2>
                <a href="/videos">${t('start.all')}</a></div>
            ${problem ? failure(problem, () => this.pages.again()) : nothing}
            ${!isAsked && !problem ? skeleton('card', 8) : nothing}
            ${isAsked && !items.length ? this.noVideos() : nothing}
            ${items.length ? html`<ul class="cards">${items.filter((video) => !isLeaving(video.id)).slice(0, RECENT).map((video) => card(video))}</ul>` : nothing}</div>`;
    }

    view() {
        const query = queried('q').trim();
        return !query ? this.start() : isWithoutWords(query) ? this.withoutWords(query) : this.results();
    }
}
customElements.define('screen-search', SearchScreen);
