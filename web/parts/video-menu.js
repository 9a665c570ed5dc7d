/* What may be done to a video: the same list on its card, beside its hits and on its page. */
import {html, nothing, render} from '../vendor/lit-html.js';
import {ask, who} from '../api.js';
import {go} from '../router.js';
import {atTime, clock, size, t} from '../text.js';
import {removeLater} from './deletions.js';
import {share} from './share.js';
import {titleOf} from './states.js';
import {copy, say} from './toast.js';
import './video-words.js';

const JOB_SECONDS = 20; // in which a file of subtitles is read, unless others wait for the worker
const MARGIN = 8; // pixels between the menu and the edges of the window

/** Tells every list what a video is now. @param {any} video */
const tell = (video) => dispatchEvent(new CustomEvent('cv-video', {detail: video}));

/** Adds a file of subtitles, and says what became of it. @param {string} id @param {File} file */
async function addSubtitles(id, file) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    const mark = bytes[0] << 8 | bytes[1];
    const encoding = mark === 0xfffe ? 'utf-16le' : mark === 0xfeff ? 'utf-16be' : 'utf-8';
    try {
        const body = {name: file.name, text: new TextDecoder(encoding, {fatal: true}).decode(bytes)};
        const {job_id: jobId} = await ask(`/videos/${id}/subtitles`, {method: 'PUT', body});
        const job = await ask(`/jobs/${jobId}`, {query: {wait: JOB_SECONDS}});
        const isBad = job.status === 'failed';
        say(`${file.name}: ${isBad ? job.error.message : t(job.status === 'done' ? 'video.subtitles.done' : 'video.subtitles.later')}`, isBad ? 'bad' : 'good');
    } catch (problem) {
        say(`${file.name}: ${problem.text ?? t('video.subtitles.no')}`, 'bad');
    }
}

/** What each entry does. @type {Record<string, (video: any, now: number) => any>} now: the moment that is shown, ms */
const DEEDS = {
    async edit({id}) {
        const form = /** @type {any} */ (document.createElement('cv-video-words'));
        document.body.append(form);
        form.addEventListener('cv-changed', async () => tell(await ask(`/videos/${id}`)));
        form.addEventListener('close', () => form.remove(), {capture: true}); // of its dialog
        await form.open([await ask(`/videos/${id}`)]);
    },
    async favourite(video) {
        await ask(`/videos/${video.id}/favourite`, {method: video.favourite ? 'DELETE' : 'PUT'});
        tell({...video, favourite: !video.favourite});
    },
    share: (video, now) => share({kind: 'video', id: video.id, title: titleOf(video), at: Math.round(now), length: video.duration_ms ?? 0}),
    link(video, now) {
        const query = location.pathname === `/videos/${video.id}` ? new URLSearchParams(location.search) : new URLSearchParams();
        query.set('t', (now / 1000).toFixed(3));
        if (video.recorded_at) {
            query.set('at', atTime(video.recorded_at, now).toISOString()); // for who reads the link
        }
        return copy(`${location.origin}/videos/${video.id}?${query}`, t('video.link.copied', {time: clock(now, 1)}));
    },
    async download({id, name}) {
        const {base_url: base, original} = await ask(`/videos/${id}/grant`, {method: 'POST', query: {original: true}});
        Object.assign(document.createElement('a'), {href: base + original, download: name ?? ''}).click();
    },
    /** Files are chosen, and become lines. */
    async subtitles({id}) {
        document.getElementById('subtitles')?.remove(); // of the last time, if nothing was chosen
        const input = Object.assign(document.createElement('input'), {id: 'subtitles', type: 'file', accept: '.srt,.vtt,.ass,.ssa', multiple: true, hidden: true});
        document.body.append(input);
        input.addEventListener('change', async () => {
            await Promise.all([...input.files].map((file) => addSubtitles(id, file)));
            input.remove();
        });
        input.click();
    },
    async reindex({id}) {
        await ask(`/videos/${id}/reindex`, {method: 'POST'});
        say(t('video.reindex.done'));
    },
    async reprocess({id}) {
        await ask(`/videos/${id}/reprocess`, {method: 'POST'});
        say(t('video.reprocess.done'));
    },
    delete(video) {
        removeLater([video]);
        if (location.pathname === `/videos/${video.id}`) {
            go('/videos');
        }
    },
};
const OF_VIEWERS = ['favourite', 'link'];
const ICONS = {edit: 'edit', favourite: 'star', share: 'share', link: 'link', download: 'download', subtitles: 'upload', reindex: 'boxes', reprocess: 'again', delete: 'trash'};

/** Does one of them, and says why not. @param {string} name @param {any} video @param {number} now ms */
export async function doTo(name, video, now = 0) {
    try {
        await DEEDS[name](video, now);
    } catch (problem) {
        say(problem.text ?? problem.message, 'bad');
    }
}

/** An entry's name. @param {string} name @param {any} video */
function textOf(name, video) {
    const key = name === 'favourite' && video.favourite ? 'video.favourite.not' : `video.${name}`;
    return name === 'download' && video.size ? `${t(key)} (${size(video.size)})` : name === 'share' ? t('share') : t(key);
}

/** Where the menu is: below its button or above it, within the window. @param {HTMLElement} menu @param {HTMLElement} button */
function put(menu, button) {
    const edge = button.getBoundingClientRect();
    const {offsetWidth: width, offsetHeight: height} = menu;
    const top = edge.bottom + height + MARGIN < innerHeight ? edge.bottom + 4 : edge.top - height - 4;
    menu.style.setProperty('left', `${Math.max(Math.min(edge.right - width, innerWidth - width - MARGIN), MARGIN)}px`);
    menu.style.setProperty('top', `${Math.max(Math.min(top, innerHeight - height - MARGIN), MARGIN)}px`);
}

/** @param {KeyboardEvent} event */
function onKey(event) {
    const entries = [.../** @type {HTMLElement} */ (event.currentTarget).querySelectorAll('button')];
    const at = entries.indexOf(/** @type {any} */ (document.activeElement));
    const next = {ArrowDown: (at + 1) % entries.length, ArrowUp: (at - 1 + entries.length) % entries.length, Home: 0, End: entries.length - 1}[event.key];
    if (next !== undefined) {
        event.preventDefault();
        entries[next].focus();
    }
    if (!['Escape', 'Tab'].includes(event.key)) {
        event.stopPropagation(); // the screen below has keys, too
    }
}

/** Opens the list below a button. @param {any} video @param {HTMLElement} button @param {number} now the moment that is shown, ms */
export async function openMenu(video, button, now = 0) {
    const me = await who().catch(() => null);
    const names = Object.keys(DEEDS).filter((name) => OF_VIEWERS.includes(name) || (me && me.role !== 'viewer'));
    const known = video.favourite === undefined ? await ask(`/videos/${video.id}`).catch(() => video) : video;
    const place = document.createElement('div');
    document.body.append(place);
    render(html`<div class="of-video-menu" popover role="menu" aria-label=${t('video.menu', {title: titleOf(video)})} @keydown=${onKey}
        @toggle=${({newState}) => newState === 'closed' && place.remove()}>${names.map((name) => html`<button role="menuitem" class="plain" data-do=${name} @click=${() => {
            menu.hidePopover();
            doTo(name, known, now);
        }}><cv-icon name=${ICONS[name]}></cv-icon>${textOf(name, known)}</button>`)}</div>`, place);
    const menu = /** @type {HTMLElement} */ (place.firstElementChild);
    menu.showPopover();
    put(menu, button);
    menu.querySelector('button').focus({preventScroll: true});
    addEventListener('scroll', () => menu.isConnected && menu.hidePopover(), {once: true, passive: true});
}
