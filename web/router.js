/* Addresses: links are followed within the page, and each place in the history remembers how far it was scrolled. */

let onChange = () => {};
let waiting = 0; // to remember how far the page is scrolled
let wanted = null; // how far down the place is that one came back to; until its list is there, the page scrolls by itself

function changed() {
    clearTimeout(waiting); // it was about the place before
    wanted = remembered().y || null;
    onChange();
    dispatchEvent(new Event('cv-moved'));
}

history.scrollRestoration = 'manual';

/** What belongs to the present place of the history and outlives a reload. */
export function remembered() {
    return history.state ?? {};
}

/** @param {Record<string, any>} values */
export function remember(values) {
    history.replaceState({...remembered(), ...values}, '');
}

/** Scrolls to where one was: to be called when what was there is there again. Elements in it, which draw themselves after it, have their size
 * before the next frame alone. */
export function findPlace() {
    requestAnimationFrame(() => {
        if (wanted !== null) {
            scrollTo(0, wanted);
            wanted = null;
        }
    });
}

/** @param {string} url @param {boolean} [isReplaced] the present place is changed, and there is none to go back to */
export function go(url, isReplaced = false) {
    if (isReplaced) {
        history.replaceState({}, '', url);
    } else {
        remember({y: scrollY});
        history.pushState({}, '', url);
    }
    changed();
}

/** Changes the query of the address. @param {Record<string, string | null>} values null: taken away */
export function goQuery(values, isReplaced = false) {
    const url = new URL(location.href);
    for (const [name, value] of Object.entries(values)) {
        if (value === null || value === '') {
            url.searchParams.delete(name);
        } else {
            url.searchParams.set(name, value);
        }
    }
    go(url.pathname + url.search, isReplaced);
}

/** @param {string} name */
export const queried = (name) => new URLSearchParams(location.search).get(name) ?? '';

function follow(event) {
    const link = event.target.closest?.('a[href]');
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !isPlain || event.defaultPrevented || link.origin !== location.origin || link.target ||
        link.hasAttribute('download') || link.pathname.startsWith('/api/') || link.pathname.startsWith('/media/')) {
        return;
    }
    event.preventDefault();
    go(link.pathname + link.search);
}

/** @param {() => void} run called when the address has changed; then the window has an event cv-moved */
export function startRouter(run) {
    onChange = run;
    document.addEventListener('click', follow);
    addEventListener('popstate', changed);
    wanted = remembered().y || null; // it was loaded again
    addEventListener('scroll', () => {
        clearTimeout(waiting);
        if (wanted === null) {
            waiting = setTimeout(() => remember({y: scrollY}), 150);
        }
    }, {passive: true});
    for (const kind of ['wheel', 'touchmove', 'pointerdown', 'keydown']) { // the reader does
        addEventListener(kind, () => {
            wanted = null;
        }, {passive: true});
    }
}
