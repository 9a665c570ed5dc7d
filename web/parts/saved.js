/* Searches that are kept on the server, which asks them of each new video: a button beside the results, and a way back to them on the first
 * page. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {queried} from '../router.js';
import {searchUrl} from '../query.js';
import {count, t} from '../text.js';
import {say} from './toast.js';

/** @type {any[] | null} */ let searches = null; // null: not asked for yet

/** Asks for them once; `changed` is called when they are there. @param {() => void} changed */
export function learnSaved(changed) {
    if (!searches) {
        searches = [];
        ask('/saved-searches').then(({items}) => {
            searches = items;
            changed();
        }, () => {
            searches = null;
        });
    }
}

/** What is searched for, with what narrows it down, as one query. */
const here = () => [queried('q'), ...['kind', 'lang', 'video'].flatMap((name) => (queried(name) ? [`${name}:${queried(name)}`] : []))].join(' ');

async function toggle(saved, changed) {
    try {
        if (saved) {
            await ask(`/saved-searches/${saved.id}`, {method: 'DELETE'});
            searches = (searches ?? []).filter((one) => one !== saved);
        } else {
            searches = [await ask('/saved-searches', {method: 'POST', body: {query: here()}}), ...searches ?? []];
            say(t('saved.added'));
        }
    } catch (problem) {
        say(problem.text, 'bad');
    }
    changed();
}

/** Keeps the search of the address, or forgets it. @param {() => void} changed */
export function saveButton(changed) {
    learnSaved(changed);
    const saved = searches?.find(({query}) => query === here());
    return html`<button class="plain" aria-pressed=${!!saved} title=${t(saved ? 'saved.remove' : 'saved.add')} @click=${() => toggle(saved, changed)}>
        <cv-icon name=${saved ? 'saved' : 'save'}></cv-icon><span class="unseen">${t(saved ? 'saved.remove' : 'saved.add')}</span></button>`;
}

/** What was kept, and how much of it is new. @param {() => void} changed */
export function savedList(changed) {
    learnSaved(changed);
    const unseen = (searches ?? []).reduce((sum, one) => sum + one.new_matches, 0);
    return searches?.length ? html`<nav class="chips saved" aria-label=${t('saved')}>${searches.map((one) => html`<a
        class="chip" href=${searchUrl(one.query)} dir="auto">${one.name}</a>`)}<a class="chip" href="/alerts"><cv-icon name="bell"></cv-icon>
        ${unseen ? t('alerts.new', {count: count(unseen)}) : t('nav.alerts')}</a></nav>` : nothing;
}

/** They are asked for again the next time. */
export function forgetSaved() {
    searches = null;
}
