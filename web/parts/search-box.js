/* The field one searches with: offers the query's fields while one types, and earlier searches. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, askAhead} from '../api.js';
import {Element, whenQuiet} from '../element.js';
import {fields, firstHits, searchUrl} from '../query.js';
import {go, queried} from '../router.js';
import {t} from '../text.js';

const SETTLE_MS = 120; // of typing, before the library is asked
const PAUSE_MS = 350; // after which what was typed may be the whole query
const AHEAD_LENGTH = 3; // of a query that is searched for before Enter
const SEARCHED = /^\/(videos\/[^/]+)?$/; // where q is the query
const KEPT = 20; // searches, in this browser alone

const earlier = () => JSON.parse(localStorage.getItem('searches') ?? '[]');

function keep(query) {
    const all = [query, ...earlier().filter((one) => one !== query)].slice(0, KEPT);
    localStorage.setItem('searches', JSON.stringify(all));
}

let boxes = 0;

class SearchBox extends Element {
    id_ = `suggestions-${++boxes}`;
    offers = [];
    chosen = -1;
    isOpen = false;

    connectedCallback() {
        addEventListener('cv-moved', () => this.update());
        this.update();
    }

    askLater = whenQuiet((text, word) => this.askFor(text, word), SETTLE_MS);

    searchAhead = whenQuiet((query) => {
        if (this.isConnected && document.activeElement === this.field && this.field.value.trim() === query) {
            askAhead('/search', firstHits(query));
        }
    }, PAUSE_MS);

    get field() {
        return this.querySelector('input');
    }

    offer() {
        const text = this.field.value.slice(0, this.field.selectionStart);
        const word = /\S*$/.exec(text)[0].toLowerCase();
        const offered = word && !word.includes(':') ? Object.keys(fields).filter((name) => name.startsWith(word)) : [];
        if (word.length > 1 || word === '@' || word === '#') {
            this.askLater(text, word);
        }
        const query = this.field.value.trim();
        if (query.length >= AHEAD_LENGTH && !query.includes(':') && query !== queried('q')) {
            this.searchAhead(query);
        }
        const past = earlier().filter((query) => query !== text && query.toLowerCase().startsWith(text.toLowerCase()));
        this.offers = [
            ...offered.map((name) => ({text: name, hint: t(`field.${name.slice(0, -1)}`), isField: true})),
            ...past.slice(0, 6).map((query) => ({text: query, hint: t('search.earlier'), isField: false})),
        ];
        this.chosen = -1;
        this.isOpen = this.offers.length > 0;
        this.update();
    }

    /** Adds what the library has: kinds, tags and names, titles. */
    async askFor(text, word) {
        if (document.activeElement !== this.field) {
            return; // the search itself is on its way
        }
        this.asking?.abort();
        this.asking = new AbortController();
        const {items} = await ask('/search/suggest', {query: {q: text}, signal: this.asking.signal}).catch(() => ({items: []}));
        const isSame = this.isConnected && document.activeElement === this.field && this.field.value.startsWith(text);
        const found = items.filter((one) => (one.kind === 'title' || one.text.startsWith(word) || one.kind === 'tag') &&
            !this.offers.some((offer) => offer.text === one.text));
        if (isSame && found.length) {
            this.offers = [...this.offers, ...found.map((one) => ({text: one.kind === 'title' ? `"${one.text}"` : one.text,
                hint: t(`search.${one.kind}`), isField: true, isWhole: one.kind !== 'operator' || !one.text.endsWith(':')}))];
            this.isOpen = true;
            this.update();
        }
    }

    take(offer) {
        const field = this.field;
        if (offer.isField) {
            const end = field.selectionStart;
            const start = end - /\S*$/.exec(field.value.slice(0, end))[0].length;
            field.setRangeText(offer.isWhole ? `${offer.text} ` : offer.text, start, end, 'end');
            field.focus();
            this.isOpen = false;
            this.update();
            return;
        }
        field.value = offer.text;
        this.submit();
    }

    submit(event) {
        event?.preventDefault();
        const query = this.field.value.trim();
        this.isOpen = false;
        if (query) {
            this.asking?.abort();
            keep(query);
            this.field.blur();
            go(searchUrl(query));
        }
        this.update();
    }

    onKey(event) {
        const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
        if (step && this.isOpen) {
            event.preventDefault();
            this.chosen = (this.chosen + step + this.offers.length + 1 + 1) % (this.offers.length + 1) - 1;
            this.update();
        } else if (event.key === 'Enter' && this.isOpen && this.chosen >= 0) {
            event.preventDefault();
            this.take(this.offers[this.chosen]);
        } else if (event.key === 'Escape') {
            this.isOpen = false;
            this.update();
        }
    }

    close() {
        this.isOpen = false;
        this.update();
    }

    drawn() {
        const query = queried('q');
        if (this.shown !== query && SEARCHED.test(location.pathname)) {
            this.shown = query;
            this.field.value = query;
        }
    }

    view() {
        const active = this.isOpen && this.chosen >= 0 ? `${this.id_}-${this.chosen}` : nothing;
        return html`<form role="search" @submit=${(event) => this.submit(event)}>
            <cv-icon name="search"></cv-icon>
            <input type="search" name="q" placeholder=${t('search.placeholder')} aria-label=${t('search')} maxlength="200"
                autocomplete="off" spellcheck="false" role="combobox" aria-autocomplete="list" enterkeyhint="search"
                aria-expanded=${this.isOpen} aria-controls=${this.id_} aria-activedescendant=${active}
                @input=${() => this.offer()} @focus=${() => this.offer()} @blur=${() => this.close()}
                @keydown=${(event) => this.onKey(event)}>
            <kbd class="hint" aria-hidden="true">/</kbd>
            <ul id=${this.id_} role="listbox" aria-label=${t('search.offers')} ?hidden=${!this.isOpen}>
                ${this.offers.map((offer, n) => html`<li role="option" id="${this.id_}-${n}"
                    aria-selected=${n === this.chosen} @mousedown=${(event) => {
                        event.preventDefault();
                        this.take(offer);
                    }}><span>${offer.text}</span><small>${offer.hint}</small></li>`)}
            </ul></form>`;
    }
}
customElements.define('cv-search-box', SearchBox);
