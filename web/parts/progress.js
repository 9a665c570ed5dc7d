/* Whether somebody waits: a line at the top of the page after a moment, and a word when it takes long. What the page asks for by
 * itself, to stay up to date, is not waited for by anybody. */
const LINE_MS = 150; // before the line comes up: what is faster needs none
const SLOW_MS = 5000; // after which the server is called slow
const WANTED_MS = 1000; // after an action of the reader in which requests are made for it

const waiting = new Set();
let actedAt = performance.now();
let timers = [];

for (const kind of ['click', 'keydown', 'popstate', 'change']) {
    addEventListener(kind, () => {
        actedAt = performance.now();
    }, {capture: true, passive: true});
}

const tell = (detail) => dispatchEvent(new CustomEvent('cv-progress', {detail}));

/** Shows that a promise is waited for, if the reader has just done something. @template T @param {Promise<T>} promise @returns {Promise<T>} it */
export function waitFor(promise) {
    if (performance.now() - actedAt > WANTED_MS) {
        return promise;
    }
    const one = {};
    if (!waiting.size) {
        timers = [setTimeout(tell, LINE_MS, 'waiting'), setTimeout(tell, SLOW_MS, 'slow')];
    }
    waiting.add(one);
    const over = () => {
        waiting.delete(one);
        if (!waiting.size) {
            timers.forEach(clearTimeout);
            tell('');
        }
    };
    promise.then(over, over);
    return promise;
}
