/* The HTTP API as the page uses it: one function, and refusals as errors that can be shown. */
import {hasText, language, t} from './text.js';

/** A refusal (RFC 9457), or that there was no answer (status 0). */
export class Problem extends Error {
    /** @param {{status: number, title: string, type?: string, detail?: string, instance?: string, errors?: {pointer: string, detail: string}[]}} body */
    constructor(body) {
        super(body.detail ?? body.title);
        this.status = body.status;
        const key = `problem.${body.type?.split('/').at(-1)}`; // of a kind that the page has words for
        this.title = hasText(key) ? t(key) : body.title;
        this.instance = body.instance;
        this.errors = body.errors ?? [];
    }

    /** What a person reads. */
    get text() {
        return this.errors.length ? this.errors.map(({pointer, detail}) => `${pointer}: ${detail}`).join('; ') : this.message;
    }
}

const {early, ANSWER_MS} = globalThis.start;
const AHEAD_MS = 10000; // then an answer that was asked for ahead is too old to be shown
const WORDS_MS = 5000; // that a refusal waits for the reader's words; then it is shown in the API's

let principal = null; // a promise of who asks
let asksToSignIn = null; // what asks the reader for a token
let asking = null; // while it does

/** Asks the reader to sign in. @returns {Promise<void>} */
export const signIn = () => (asking ??= asksToSignIn().finally(() => {
    asking = null;
}));

/** @param {() => Promise<void>} ask called when the API wants to know who asks */
export function onSignIn(ask) {
    asksToSignIn = ask;
}

/**
 * Makes a token, or what the code of a link stands for, this browser's cookie, which no script can read.
 * @param {string} token
 * @returns {Promise<void>}
 */
export async function useToken(token) {
    principal = null;
    await send('/session', {method: 'POST', body: {token}, signal: AbortSignal.timeout(ANSWER_MS)});
}

/**
 * Signs in by what is in the body. A refusal is the caller's: nobody is asked to sign in.
 * @param {string} path @param {any} body @param {string} [method]
 * @returns {Promise<any>} the session
 */
export async function enter(path, body, method = 'POST') {
    const session = await send(path, {method, body, signal: AbortSignal.timeout(ANSWER_MS)});
    principal = null;
    return session;
}

/** Whom this browser's cookie signs in; null: nobody; undefined: the server does not say. @returns {Promise<any>} */
export function whoIsSignedIn() {
    return send('/me', {}).catch((problem) => (problem.status === 401 ? null : undefined));
}

/**
 * Whom a token or a link's code would sign in. @param {string} token
 * @returns {Promise<{role: string, user_id: string | null} | null>} null: nobody
 */
export function subjectOf(token) {
    return send('/session', {method: 'POST', body: {token, dry_run: true}, signal: AbortSignal.timeout(ANSWER_MS)}).catch(() => null);
}

/** Who asks, and what they may do; asked for once. @returns {Promise<any>} */
export function who() {
    principal ??= ask('/me').catch((problem) => {
        principal = null;
        throw problem;
    });
    return principal;
}

function address(path, query) {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query ?? {})) {
        if (value !== null && value !== undefined && value !== '') {
            search.set(name, String(value));
        }
    }
    const text = search.toString();
    return `/api/v1${path}${text ? `?${text}` : ''}`;
}

/**
 * A refusal in the reader's language. The words come with the first one, and never for who reads the API's own.
 * @param {any} body as the API answers it
 * @returns {Promise<Problem>}
 */
export async function refusalOf(body) {
    if (language === 'en' || !body.type) { // a bucket's or none
        return new Problem(body);
    }
    const inWords = import('./refusals.js').then(({inReadersLanguage}) => inReadersLanguage(body)).catch(() => body);
    return new Problem(await Promise.race([inWords, new Promise((done) => setTimeout(done, WORDS_MS, body))]));
}

/** The places where jobs say why they failed or were skipped. @param {any} body @returns {[any, string][]} object and member */
function reasonsIn(body) {
    if (body === null || typeof body !== 'object') {
        return [];
    }
    const own = typeof body.error?.message === 'string' ? [body.error, 'message']
        : typeof body.error_message === 'string' ? [body, 'error_message']
            : body.message?.startsWith?.('skipped: ') ? [body, 'message'] : null;
    return [...own ? [/** @type {[any, string]} */ (own)] : [], ...Object.values(body).flatMap(reasonsIn)];
}

/** Puts what an answer or an event says of failures into the reader's language. @param {any} body @returns {Promise<any>} it */
export async function inWords(body) {
    const reasons = language === 'en' ? [] : reasonsIn(body);
    if (reasons.length) {
        await import('./refusals.js').then(({translateReasons}) => translateReasons(reasons)).catch(() => null);
    }
    return body;
}

async function problemOf(answer) {
    try {
        return await refusalOf(await answer.json());
    } catch {
        return new Problem({status: answer.status, title: t('problem.status', {status: String(answer.status)})});
    }
}

/**
 * Asks the API. A 401 asks the reader to sign in, and then the same again, so that nothing typed is lost.
 * @param {string} path behind /api/v1
 * @param {{method?: string, query?: Record<string, any>, body?: any, signal?: AbortSignal}} [wishes]
 * @returns {Promise<any>} the body
 */
export async function ask(path, wishes = {}) {
    try {
        return await send(path, wishes);
    } catch (problem) {
        if (problem.status !== 401 || !asksToSignIn) {
            throw problem;
        }
    }
    await signIn();
    return send(path, wishes);
}

/** As fetch; what was asked for early is taken once. @param {string} url @param {RequestInit} [wishes] */
export function answerTo(url, wishes) {
    const answer = (wishes?.method ?? 'GET') === 'GET' && early.get(url);
    early.delete(url);
    return answer || fetch(url, wishes);
}

let ahead = '';

/** Asks for what will be wanted in a moment, if the reader goes on as it seems; of several the last. */
export function askAhead(path, query) {
    const url = address(path, query);
    if (url === ahead && early.has(url)) {
        return;
    }
    early.delete(ahead);
    ahead = url;
    const answer = fetch(url, {headers: {'X-Cortana': '1'}, signal: AbortSignal.timeout(ANSWER_MS)})
        .then(async (one) => new Response(await one.blob(), one)); // read at once: it would keep a connection
    answer.catch(() => null); // who takes it says so
    early.set(url, answer);
    setTimeout(() => early.get(url) === answer && early.delete(url), AHEAD_MS);
}

async function send(path, wishes) {
    const headers = {'X-Cortana': '1'};
    if (wishes.body !== undefined) {
        headers['Content-Type'] = 'application/json';
    }
    const signals = [...wishes.signal ? [wishes.signal] : [], ...wishes.method ? [] : [AbortSignal.timeout(ANSWER_MS)]];
    let answer;
    let body = null;
    let problem = null;
    try {
        answer = await waitFor(answerTo(address(path, wishes.query), {
            method: wishes.method ?? 'GET', headers, signal: AbortSignal.any(signals),
            body: wishes.body === undefined ? undefined : JSON.stringify(wishes.body),
        }));
        problem = answer.ok ? null : await problemOf(answer);
        body = answer.ok && answer.status !== 204 ? await inWords(await answer.json()) : null;
    } catch (fault) {
        if (fault.name === 'AbortError') {
            throw fault;
        }
        dispatchEvent(new CustomEvent('cv-away', {detail: t('problem.away')}));
        throw new Problem({status: 0, title: t('problem.away'), detail: t('problem.away.detail')});
    }
    if (answer.status === 503) {
        dispatchEvent(new CustomEvent('cv-away', {detail: problem.title}));
    }
    if (problem) {
        throw problem;
    }
    return body;
}

// ---- whether somebody waits: a line at the top of the page after a moment, and a word when it takes long. What the page asks for by
// itself, to stay up to date, is not waited for by anybody.
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
