/* Uploads: they go on while one looks elsewhere, outlive a reload (then the same file is chosen again), and turn into
 * what is done with the video. Nothing of a file is sent twice but the part that was under way. */
import {ask, refusalOf} from './api.js';
import {listen} from './live.js';
import {OPEN} from './parts/states.js';

const PART = 8 * 1024 * 1024; // bytes in one request: what is sent again after a fault
const AT_ONCE = 2;
const AGAIN_MS = 2000; // after a failure; doubled up to
const AGAIN_LONGEST_MS = 30000;
const KEPT = 50; // in this browser
const RATE_OVER = 5000; // ms that the rate is an average of
const BUSY = ['waiting', 'sending', 'again'];

/** @typedef {{id: string, name: string, size: number, changed: number, state: string, sent: number, video?: string,
 *     file?: File, problem?: string, rate?: number, status?: string, job?: any, lines?: any[]}} Upload */

class Uploads extends EventTarget {
    /** @type {Upload[]} */ items = JSON.parse(localStorage.getItem('uploads') ?? '[]').map((item) => (
        {...item, state: item.state === 'sent' ? 'sent' : 'file-needed'}));
    #listening = null;
    #requests = new Map(); // upload → XMLHttpRequest

    constructor() {
        super();
        addEventListener('beforeunload', (event) => {
            if (this.isSending) {
                event.preventDefault();
            }
        });
    }

    get isSending() {
        return this.items.some((item) => BUSY.includes(item.state));
    }

    changed() {
        const kept = this.items.filter((item) => item.id).slice(0, KEPT)
            .map(({id, name, size, changed, state, sent, video}) => ({id, name, size, changed, state, sent, video}));
        localStorage.setItem('uploads', JSON.stringify(kept));
        this.dispatchEvent(new Event('change'));
    }

    /** Watches the videos that came of uploads, and asks what was not known yet. */
    async watch() {
        this.learnSent();
        const videos = this.items.filter((item) => item.state === 'sent' && !['ready', 'failed', 'duplicate'].includes(item.status));
        const jobs = videos.filter((item) => item.job?.state === 'processing').map((item) => `job:${item.job.id}`);
        const topics = [...videos.map((item) => `video:${item.video}`), ...jobs].slice(0, 40);
        this.#listening ??= listen([], (kind, data) => this.heard(kind, data));
        this.#listening.topics(topics);
        for (const item of videos.filter((one) => !one.status)) {
            item.status = 'new';
            await this.lookAt(item);
        }
    }

    /** How much of what was interrupted is on the server: this browser may not have noted the last of it. */
    async learnSent() {
        for (const item of this.items.filter((one) => one.state === 'file-needed' && !one.isLearnt)) {
            item.isLearnt = true;
            item.sent = (await ask(`/uploads/${item.id}`).catch(() => null))?.offset ?? item.sent;
            this.dispatchEvent(new Event('change'));
        }
    }

    async lookAt(item) {
        try {
            const video = await ask(`/videos/${item.video}`);
            const {items} = await ask(`/videos/${item.video}/stages`);
            const stage = items.find((one) => one.status === 'processing') ?? items.findLast((one) => one.status !== 'done');
            item.job = stage && {...stage, id: stage.job_id, state: stage.status};
            await this.heardVideo(item, video);
        } catch (problem) {
            if (problem.status === 404) {
                this.forget(item); // deleted meanwhile
            }
        }
    }

    heard(kind, data) {
        if (kind === 'reset') {
            this.items.filter((item) => item.state === 'sent').forEach((item) => this.lookAt(item));
        }
        for (const item of this.items.filter((one) => one.video)) {
            if (kind === 'job' && data.video_id === item.video) {
                item.job = data;
                this.changed();
                this.watch();
                if (!OPEN.includes(data.state)) {
                    this.lookAt(item);
                }
            } else if (kind === 'video' && data.id === item.video) {
                this.heardVideo(item, data);
            }
        }
    }

    async heardVideo(item, video) {
        item.status = video.status;
        item.twin = video.duplicate_of;
        if (!item.lines?.length) { // text is there before the video can be played
            item.lines = (await ask(`/videos/${item.video}/segments`, {query: {limit: 3}}).catch(() => ({items: []}))).items;
        }
        this.changed();
        this.watch();
    }

    /** Takes files; one that was begun before goes on where it ended. @param {Iterable<File>} files */
    add(files) {
        for (const file of files) {
            const begun = this.items.find((item) => item.state === 'file-needed' && item.name === file.name &&
                item.size === file.size && item.changed === file.lastModified);
            if (begun) {
                Object.assign(begun, {file, state: 'waiting'});
            } else {
                this.items.unshift({id: '', name: file.name, size: file.size, changed: file.lastModified, file, sent: 0,
                    state: file.size ? 'waiting' : 'empty'});
            }
        }
        this.changed();
        this.startNext();
    }

    startNext() {
        const busy = this.items.filter((item) => ['sending', 'again'].includes(item.state)).length;
        this.items.filter((item) => item.state === 'waiting').reverse().slice(0, Math.max(AT_ONCE - busy, 0))
            .forEach((item) => this.run(item));
    }

    async run(item) {
        let wait = AGAIN_MS;
        item.state = 'sending';
        item.problem = '';
        this.changed();
        while (item.state === 'sending' || item.state === 'again') {
            try {
                await this.send(item);
                item.state = 'sent';
                item.status = '';
                delete item.file;
            } catch (problem) {
                if (item.state !== 'sending') {
                    break; // paused or given up
                }
                const mayWork = !(problem.status >= 400 && problem.status < 500 && ![408, 409, 423, 429].includes(problem.status));
                Object.assign(item, {state: mayWork ? 'again' : 'failed', problem: problem.text ?? problem.message});
                this.changed();
                if (mayWork) {
                    await new Promise((done) => setTimeout(done, wait));
                    wait = Math.min(wait * 2, AGAIN_LONGEST_MS);
                    item.state = item.state === 'again' ? 'sending' : item.state;
                }
            }
        }
        this.changed();
        this.watch();
        this.startNext();
    }

    /** Sends what is not there yet. */
    async send(item) {
        const upload = item.id ? await ask(`/uploads/${item.id}`)
            : await ask('/uploads', {method: 'POST', body: {name: item.name, size: item.size}});
        Object.assign(item, {id: upload.id, video: upload.video_id, sent: upload.offset ?? 0, problem: ''});
        this.changed();
        if (upload.state === 'complete') {
            return;
        }
        if (upload.mode === 'parts') {
            for (let number = 1, from = 0; from < item.size; number++, from += upload.part_size) {
                if (!upload.parts.includes(number)) {
                    const {items: [part]} = await ask(`/uploads/${item.id}/parts`, {method: 'POST', body: {numbers: [number]}});
                    await this.transfer(item, 'PUT', part.url, item.file.slice(from, from + part.size), {}, item.sent);
                }
            }
            await ask(`/uploads/${item.id}/complete`, {method: 'POST'});
            return;
        }
        while (item.sent < item.size) {
            const from = item.sent;
            await this.transfer(item, 'PATCH', upload.location, item.file.slice(from, from + PART), {'X-Cortana': '1',
                'Content-Type': 'application/offset+octet-stream', 'Upload-Offset': String(from), 'Tus-Resumable': '1.0.0'}, from);
            item.sent = Math.min(from + PART, item.size);
            this.changed();
        }
    }

    /** One request by XMLHttpRequest, the only one that says how many bytes have gone. */
    transfer(item, method, url, body, headers, from) {
        const since = performance.now();
        return new Promise((done, fail) => {
            const request = new XMLHttpRequest();
            this.#requests.set(item, request);
            request.open(method, url);
            Object.entries(headers).forEach(([name, value]) => request.setRequestHeader(name, value));
            request.upload.onprogress = (event) => {
                item.sent = from + event.loaded;
                const rate = event.loaded / Math.max(performance.now() - since, 1) * 1000;
                const share = Math.min((performance.now() - since) / RATE_OVER, 1);
                item.rate = item.rate ? item.rate * (1 - share) + rate * share : rate;
                this.dispatchEvent(new Event('change'));
            };
            const refused = async (status) => {
                let body = {};
                try {
                    body = JSON.parse(request.responseText);
                } catch {
                    // a bucket answers in XML
                }
                fail(await refusalOf({title: String(status || ''), ...body, status}));
            };
            request.onload = () => (request.status < 300 ? done() : refused(request.status));
            request.onerror = request.onabort = () => refused(0);
            request.send(body);
        });
    }

    /** @param {Upload} item */
    pause(item) {
        item.state = 'paused';
        this.#requests.get(item)?.abort();
        this.changed();
    }

    /** @param {Upload} item */
    goOn(item) {
        item.state = 'waiting';
        this.startNext();
    }

    /** Gives an upload up. @param {Upload} item */
    async stop(item) {
        const isSent = item.state === 'sent';
        item.state = 'stopped';
        this.#requests.get(item)?.abort();
        this.forget(item);
        if (item.id && !isSent) {
            await ask(`/uploads/${item.id}`, {method: 'DELETE'}).catch(() => null); // gone already
        }
    }

    forget(item) {
        this.items = this.items.filter((one) => one !== item);
        this.changed();
        this.watch();
    }
}

export const uploads = new Uploads();
