/* Live events: one stream for all tabs of a browser, because HTTP/1.1 allows six connections. The tab that holds the
 * lock reads it and tells the others; without locks (plain HTTP elsewhere than here) each tab reads its own. */
import {ask, inWords} from './api.js';

const CHANNEL = 'cv-live';
const SILENT_MS = 45000; // a ping comes every 20 s
const WAIT_MS = 1000; // before the first new attempt; doubled up to
const WAIT_LONGEST_MS = 30000;
const STATED_MS = 30000; // between two words of a tab that it is there
const GONE_MS = 90000; // a tab that says nothing for so long
const HIDDEN_MS = 300000; // then a tab that nobody looks at lets go
const SETTLE_MS = 50; // for topics that change together
const TOPICS_MAX = 50;

const listeners = new Set();
const others = new Map(); // tab → {topics, at}
const channel = globalThis.BroadcastChannel ? new BroadcastChannel(CHANNEL) : null;
const me = String(Math.random());
let isReader = false;
let letGo = null; // gives the lock back
let stream = null; // AbortController of the one that is open
let opened = ''; // its topics
let last = ''; // id of the event that came last; every tab has it, so that any of them can go on from there
let wait = WAIT_MS;
let next = 0; // timer of the next attempt

let isHiddenLong = false;

const ownTopics = () => (isHiddenLong ? [] : [...new Set([...listeners].flatMap((one) => one.topics))]);

function matches(topic, kind, data) {
    const [name, id] = topic.split(':');
    if (kind === 'reset' || name === 'queues') {
        return kind === 'reset' || kind === 'queues';
    }
    if (name === 'tenant') {
        return kind !== 'queues';
    }
    return id === data.id ? kind === name : kind === 'job' && (name === 'video' || name === 'run') && data[`${name}_id`] === id;
}

/** Tells the listeners of this tab. */
function tell(kind, data) {
    if (kind === 'live') {
        dispatchEvent(new CustomEvent('cv-live', {detail: data.isLive}));
        return;
    }
    for (const one of [...listeners]) {
        if (one.topics.some((topic) => matches(topic, kind, data))) {
            one.run(kind, data);
        }
    }
}

function tellAll(kind, data) {
    tell(kind, data);
    channel?.postMessage({kind, data, last});
}

function state() {
    channel?.postMessage({tab: me, topics: ownTopics()});
    if (isReader) {
        clearTimeout(next);
        next = setTimeout(read, SETTLE_MS);
    }
}

function wanted() {
    const now = Date.now();
    for (const [tab, {at}] of others) {
        if (now - at > GONE_MS) {
            others.delete(tab);
        }
    }
    const all = new Set([...ownTopics(), ...[...others.values()].flatMap((one) => one.topics)]);
    return [...all].sort().slice(0, TOPICS_MAX);
}

/** One topic of a thing that is gone would end the whole stream. */
async function onlyThere(topics) {
    const found = await Promise.all(topics.map((topic) => {
        const [kind, id] = topic.split(':');
        return id ? ask(`/${kind}s/${id}`).then(() => topic, () => null) : topic;
    }));
    return found.filter(Boolean);
}

async function* eventsOf(answer, quiet) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ''; ;) {
        const {done, value} = await reader.read();
        quiet();
        if (done) {
            return;
        }
        const parts = (rest + value).split('\n\n');
        rest = parts.pop();
        for (const part of parts) {
            const event = {};
            for (const line of part.split('\n').filter((one) => one && !one.startsWith(':'))) {
                const at = line.indexOf(': ');
                event[line.slice(0, at)] = line.slice(at + 2);
            }
            yield event;
        }
    }
}

/** Reads the stream of what all tabs want, until the topics change or it is cut. */
async function read(topics = wanted()) {
    const text = topics.join(',');
    if (stream && text === opened) {
        return;
    }
    stream?.abort();
    stream = null;
    opened = text;
    if (!topics.length) {
        tellAll('live', {isLive: true}); // nothing is shown that could be out of date
        return;
    }
    const own = stream = new AbortController();
    let silence = 0;
    const quiet = () => {
        clearTimeout(silence);
        silence = setTimeout(() => own.abort(), SILENT_MS);
    };
    quiet();
    let status = 0;
    let isReplaced = false;
    let isFirst = !last; // what happened before the stream began, and after the lists were asked for, was not heard
    try {
        const query = new URLSearchParams({topics: text, ...last && {last_event_id: last}});
        const answer = await fetch(`/api/v1/events?${query}`, {signal: own.signal, headers: {'X-Cortana': '1'}});
        status = answer.status;
        if (answer.ok) {
            tellAll('live', {isLive: true});
            for await (const event of eventsOf(answer, quiet)) {
                wait = WAIT_MS;
                last = event.id ?? last;
                if (isFirst && event.event === 'ready') {
                    isFirst = false;
                    tellAll('reset', {});
                }
                isReplaced = event.event === 'replaced'; // by a newer one of the same caller
                if (event.event === 'away' || event.event === 'back') { // the database
                    tellAll('live', {isLive: event.event === 'back'});
                } else if (event.event && !['ready', 'expired', 'replaced'].includes(event.event)) {
                    tellAll(event.event, await inWords(JSON.parse(event.data)));
                } else {
                    channel?.postMessage({last});
                }
            }
        }
    } catch {
        // the stream is cut: again below
    }
    clearTimeout(silence);
    if (stream !== own) {
        return; // another one was opened meanwhile
    }
    stream = null;
    const isRefused = status === 404 || status === 403; // for one of the topics
    if (status === 401) {
        await ask('/me').catch(() => null); // asks the reader to sign in
    } else if (isRefused) {
        topics = await onlyThere(topics.filter((topic) => status === 404 || topic.includes(':')));
    }
    const isCut = status !== 200;
    if (isCut && !isRefused) {
        tellAll('live', {isLive: false});
    }
    clearTimeout(next);
    next = setTimeout(() => read(isRefused ? topics : wanted()), isReplaced ? WAIT_LONGEST_MS : isCut ? wait * (0.5 + Math.random()) : 100);
    wait = isCut ? Math.min(wait * 2, WAIT_LONGEST_MS) : WAIT_MS;
}

function becomeReader() {
    isReader = true;
    channel?.postMessage({isAsking: true});
    state();
    return new Promise((done) => {
        letGo = () => {
            isReader = false;
            letGo = null;
            clearTimeout(next);
            stream?.abort();
            stream = null;
            done();
        };
    });
}

function start() {
    if (!channel || !navigator.locks) {
        becomeReader();
        return;
    }
    navigator.locks.request(CHANNEL, becomeReader);
    channel.onmessage = ({data: {tab, topics, isAsking, kind, data, last: heard}}) => {
        if (!isReader) {
            last = heard || last;
        }
        if (tab) {
            others.set(tab, {topics, at: Date.now()});
            if (isReader) {
                channel.postMessage({last});
                clearTimeout(next);
                next = setTimeout(read, SETTLE_MS);
            }
        } else if (isAsking) {
            state();
        } else if (kind) {
            tell(kind, data);
        }
    };
    setInterval(state, STATED_MS);
    addEventListener('pagehide', () => {
        channel.postMessage({tab: me, topics: []});
        letGo?.();
    });
    let hidden = 0;
    document.addEventListener('visibilitychange', () => {
        clearTimeout(hidden);
        if (document.hidden) {
            hidden = setTimeout(() => {
                isHiddenLong = true;
                state();
                letGo?.();
            }, HIDDEN_MS);
        } else if (isHiddenLong) {
            isHiddenLong = false;
            navigator.locks.request(CHANNEL, becomeReader);
            state();
            tell('reset', {}); // what came meanwhile was not heard
        }
    });
}

let isStarted = false;

/**
 * Listens to events of topics: job:ID, run:ID, video:ID, tenant, queues.
 * @param {string[]} topics
 * @param {(kind: string, data: any) => void} run called with "job", "run" or "video" and the state the thing has now;
 *     "queues": something has changed; "reset": events were missed, and all is to be read anew
 * @returns {{topics: (topics: string[]) => void, stop: () => void}} changes the topics; ends it
 */
export function listen(topics, run) {
    const listener = {topics, run};
    listeners.add(listener);
    if (!isStarted) {
        isStarted = true;
        start();
    }
    state();
    return {
        topics: (changed) => {
            if (String(listener.topics) !== String(changed)) {
                listener.topics = changed;
                state();
            }
        },
        stop: () => {
            listeners.delete(listener);
            state();
        },
    };
}
