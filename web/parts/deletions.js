/* What somebody has deleted and may still want back: lists leave it out, and the server hears of it only when the time is over in
 * which it can be withdrawn. Until then nothing is lost: a tab that is closed meanwhile has deleted nothing, one that is loaded
 * again goes on. */
import {ask} from '../api.js';
import {t} from '../text.js';
import {forgetPages} from './pages.js';
import {titleOf} from './states.js';
import {offer, say} from './toast.js';

const WITHDRAWN_MS = 10000; // within which a deletion can be withdrawn
const KEPT_MS = 60000; // after which a tab that was closed and opened again does not go on
const BUSY_MS = 1000; // before the next attempt, when the server says that these are too many at once

const leaving = new Map(); // id → {title, path}
const isWaiting = new Set(); // ids of which the server has not heard

/** Whether lists are to leave something out. @param {string} id */
export const isLeaving = (id) => leaving.has(id);

function changed() {
    const kept = [...isWaiting].map((id) => ({id, ...leaving.get(id)}));
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
            return await ask(`${leaving.get(id).path}/${encodeURIComponent(id)}`, {method: 'DELETE'});
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
 * Deletes things when they were not wanted back for a while.
 * @param {{id: string, title?: string, name?: string}[]} things
 * @param {string} [path] of the API, below which they are
 * @returns {Promise<void>} when they are gone, or back
 */
export async function removeLater(things, path = '/videos') {
    const ids = things.map((one) => one.id);
    const title = titleOf(things[0]);
    for (const one of things) {
        leaving.set(one.id, {title: titleOf(one), path});
        isWaiting.add(one.id);
    }
    changed();
    if (await offer(t('deletion', {n: ids.length, title}), t('undo'), WITHDRAWN_MS)) {
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
            say(t('deletion.failed', {n: ids.length - n, title, why: problem.text}), 'bad');
            return;
        } finally {
            forgetPages();
        }
    }
    say(t('deletion.done', {n: ids.length, title}));
}

/** Goes on where this tab was before it was loaded again. */
export function goOnDeleting() {
    const {at = 0, kept = []} = JSON.parse(sessionStorage.getItem('deletions') ?? '{}');
    if (kept.length && Date.now() - at < KEPT_MS) {
        for (const [path, things] of Map.groupBy(kept, (one) => one.path)) {
            removeLater(things, path);
        }
    }
}
