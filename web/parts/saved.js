/* Searches that are kept in this browser, by a button beside the results, and offered on the first page. */
import {html, nothing} from '../vendor/lit-html.js';
import {t} from '../text.js';

const KEPT = 24; // searches

/** Addresses behind the origin, the newest first. */
const saved = () => JSON.parse(localStorage.getItem('saved') ?? '[]');

const nameOf = (address) => {
    const {q, ...others} = Object.fromEntries(new URLSearchParams(address.slice(address.indexOf('?'))));
    return [q, ...Object.values(others)].join(' · ');
};

/** Keeps the search of the address, or forgets it. @param {() => void} changed */
export function saveButton(changed) {
    const here = location.pathname + location.search;
    const isSaved = saved().includes(here);
    return html`<button class="plain" aria-pressed=${isSaved} title=${t(isSaved ? 'saved.remove' : 'saved.add')} @click=${() => {
        const others = saved().filter((one) => one !== here);
        localStorage.setItem('saved', JSON.stringify(isSaved ? others : [here, ...others].slice(0, KEPT)));
        changed();
    }}><cv-icon name=${isSaved ? 'saved' : 'save'}></cv-icon><span class="unseen">${t(isSaved ? 'saved.remove' : 'saved.add')}</span></button>`;
}

/** What was kept. */
export const savedList = () => saved().length ? html`<nav class="chips saved" aria-label=${t('saved')}>${saved().map((one) => html`<a
    class="chip" href=${one} dir="auto">${nameOf(one)}</a>`)}</nav>` : nothing;
