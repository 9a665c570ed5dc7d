/* Lists that the API answers in pages: kept while one looks elsewhere, and continued as one scrolls. */
import {ask} from '../api.js';
import {remember, remembered} from '../router.js';

const KEPT_LISTS = 12; // in memory, so that Back shows at once what was there
const LOOKS = 20; // pages without an item that are passed over at once
const kept = new Map();

export class Pages {
    /** @type {any[]} */ items = [];
    first = null; // the answer of the first page, for what it has beside its items
    next = null;
    count = 0; // pages that are there
    answers = 0; // that were taken: also those that took the place of others
    isLoading = false;
    isAsked = false; // whether there was an answer yet
    isStarted = false; // whether all is there that was there before
    problem = null;
    #abort = new AbortController();
    #isAwaited = false; // a page
    #wanted = 0; // how often the list became outdated
    #current = 0; // the same number, when what is shown was asked for

    /**
     * @param {string} path of the operation
     * @param {Record<string, any>} query without cursor
     * @param {() => void} changed called when there is something new to show
     * @param {number} [first] items of the first page, where fewer are there sooner
     */
    constructor(path, query, changed, first = query.limit) {
        this.firstLimit = first;
        this.path = path;
        this.query = query;
        this.changed = changed;
        this.key = path + JSON.stringify(query);
    }

    /** Shows what was there before, or asks for it: as many pages as this place in the history had. */
    async start() {
        const old = kept.get(this.key);
        if (old && remembered().pages) {
            Object.assign(this, {...old, isAsked: true, isStarted: true});
            this.changed();
            return;
        }
        const wanted = remembered().pages ?? 1;
        for (let page = 0; page < wanted && (page === 0 || this.next) && !this.problem; page++) {
            await this.more();
        }
        this.isStarted = true;
        this.changed();
    }

    /** Asks for the next page; does nothing while one is awaited. */
    async more() {
        if (this.#isAwaited || (this.isAsked && !this.next && !this.problem && !this.#isOutdated)) {
            return;
        }
        this.#isAwaited = true;
        this.isLoading = !this.#isOutdated || !this.items.length; // what is shown stays until its newer form is there
        this.problem = null;
        this.changed();
        try {
            do {
                await this.#read();
            } while (this.#isOutdated);
        } catch (problem) {
            if (problem.name === 'AbortError') {
                return;
            }
            this.problem = problem;
        }
        this.#isAwaited = this.isLoading = false;
        this.changed();
    }

    get #isOutdated() {
        return this.#current !== this.#wanted;
    }

    /** Reads the next page; of an outdated list the first one, in place of all its pages. */
    async #read() {
        const wanted = this.#wanted;
        const before = this.#isOutdated ? {items: [], first: null, next: null, count: 0} : this;
        let {first, next} = before;
        let answer;
        let looks = 0;
        do { // a page may be empty and have a next one, where what is wanted is rare
            const query = {...this.query, cursor: next, ...!next && {limit: this.firstLimit}};
            answer = await ask(this.path, {query, signal: this.#abort.signal});
            first ??= answer;
            next = answer.next;
            looks++;
        } while (!answer.items.length && next && looks < LOOKS);
        Object.assign(this, {items: [...before.items, ...answer.items], first, next, count: before.count + 1, isAsked: true});
        this.answers++;
        this.#current = wanted;
        kept.delete(this.key);
        kept.set(this.key, {items: this.items, first, next, count: this.count});
        if (kept.size > KEPT_LISTS) {
            kept.delete(kept.keys().next().value);
        }
        remember({pages: this.count});
    }

    /** Asks for the first page again: the list is outdated, also where its answer is under way. */
    async again() {
        this.#wanted++;
        await this.more();
    }

    stop() {
        this.#abort.abort();
    }
}

/** Forgets what was kept: something has changed the lists. */
export function forgetPages() {
    kept.clear();
}

/**
 * Asks for the next page of a screen's list when the end of it (.end) comes into view. After each answer the end is looked
 * at anew, because an observer is silent about what stays in view; and only then, because one that is told to begin again at each
 * drawing may never come to speak while much is drawn.
 * @param {HTMLElement & {pages: Pages}} screen
 */
export function watchEnd(screen) {
    let watched = null;
    let answers = 0;
    const observer = new IntersectionObserver((seen) => {
        if (seen.some((one) => one.isIntersecting) && screen.pages.items.length) {
            screen.pages.more();
        }
    }, {rootMargin: '600px'});
    return {
        /** To be called when the screen was drawn. */
        look() {
            const end = screen.querySelector('.end');
            if (end !== watched || answers !== screen.pages.answers) {
                [watched, answers] = [end, screen.pages.answers];
                observer.disconnect();
                if (end) {
                    observer.observe(end);
                }
            }
        },
        stop: () => observer.disconnect(),
    };
}
