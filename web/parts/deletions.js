/* Videos that somebody has deleted and may still want back: lists leave them out, and the server hears of it only when the
 * time is over in which it can be withdrawn. Until then nothing is lost: a tab that is closed meanwhile has deleted nothing,
 * one that is loaded again goes on. */
import {ask} from '../api.js';
import {t} from '../text.js';
import {forgetPages} from './pages.js';
import {titleOf} from './states.js';
import {offer, say} from './toast.js';

const WITHDRAWN_MS = 10000; // within which a deletion can be withdrawn
const KEPT_MS = 60000; // after which a tab that was closed and opened again does not go on
const BUSY_MS = 1000; // before the next attempt, when the server says that these are too many at once

const leaving = new Map(); // id → title
const isWaiting = new Set(); // ids of which the server has not heard

/** Whether lists are to leave a video out. @param {string} id */
export const isLeaving = (id) => leaving.has(id);

function changed() {
    const kept = [...isWaiting].map((id) => [id, leaving.get(id)]);
    sessionStorage.setItem('deletions', JSON.stringify({at: Date.now(), kept}));
    dispatchEvent(new CustomEvent('cv-leaving'));
}

function comeBack(ids) {
    for (const id of ids) {
        leaving.delete(id);
        isWaiting.delete(id);
    }
    changed();
}

async function remove(id) {
    for (;;) {
        try {
            return await ask(`/videos/${id}`, {method: 'DELETE'});
        } catch (problem) {
            if (problem.status === 404) {
                return null; // somebody else was faster
            }
            if (problem.status !== 429) {
                throw problem;
            }
            await new Promise((done) => setTimeout(done, BUSY_MS));
        }
    }
}

/**
 * Deletes videos when they were not wanted back for a while.
 * @param {{id: string, title?: string, name?: string}[]} videos
 */
export async function removeLater(videos) {
    const ids = videos.map((video) => video.id);
    for (const video of videos) {
        leaving.set(video.id, titleOf(video));
        isWaiting.add(video.id);
    }
    changed();
    if (await offer(t('deletion', {n: ids.length, title: titleOf(videos[0])}), t('undo'), WITHDRAWN_MS)) {
        comeBack(ids);
        return;
    }
    for (const [n, id] of ids.entries()) {
        try {
            await remove(id);
            isWaiting.delete(id);
            changed();
        } catch (problem) {
            comeBack(ids.slice(n));
            say(t('deletion.failed', {n: ids.length - n, why: problem.text}), 'bad');
            return;
        } finally {
            forgetPages();
        }
    }
    say(t('deletion.done', {n: ids.length}));
}

/** Goes on where this tab was before it was loaded again. */
export function goOnDeleting() {
    const {at = 0, kept = []} = JSON.parse(sessionStorage.getItem('deletions') ?? '{}');
    if (kept.length && Date.now() - at < KEPT_MS) {
        removeLater(kept.map(([id, title]) => ({id, title})));
    }
}
