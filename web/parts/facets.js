/* How the hits divide up, and the choice of a part of them, as a row of menus; each choice stands in the address. */
import {html, nothing} from '../vendor/lit-html.js';
import {takeApart, without} from '../query.js';
import {goQuery, queried} from '../router.js';
import {count, languageName, t} from '../text.js';

const SHOWN = 12; // values of a facet
const SURE = '0.8'; // confidence from which a line is called sure
const DAYS = [7, 30, 365]; // that videos are added within
const DAY_MS = 86400000;

/** Parameters of a search that narrow it down, and the facet of each. */
export const NARROWING = {kind: 'kind', lang: 'language', match: 'match', video: 'video', min_confidence: null};

const names = {
    kind: (value) => t(`kind.${value}`), lang: languageName, match: (value) => t(`match.${value}`),
};

function values(facets, name) {
    const facet = facets?.[NARROWING[name]] ?? {};
    if (name === 'video') {
        return (facets?.video ?? []).map((one) => ({value: one.id, name: one.title || t('untitled'), number: one.count}));
    }
    const chosen = queried(name) in facet ? [] : [queried(name)];
    return [...Object.keys(facet).sort((a, b) => facet[b] - facet[a]), ...chosen].filter(Boolean)
        .map((value) => ({value, name: names[name](value), number: facet[value] ?? 0}));
}

const menu = (key, chosen, options) => html`<details class="menu"><summary class="chip ${chosen ? 'on' : ''}" dir="auto">${
    chosen ? html`<b>${t(key)}</b> ${chosen}` : t(key)}</summary><div>${options}</div></details>`;

const option = (name, isChosen, run, number = null) => html`<button class="facet" aria-pressed=${isChosen} dir="auto" @click=${run}><span>${name}</span>${
    number === null ? nothing : html`<small>${count(number)}</small>`}</button>`;

function group(facets, name) {
    const all = values(facets, name);
    const isChoice = all.length > 1 || (name === 'kind' && all.length); // many lines are of no kind
    const chosen = all.find((one) => one.value === queried(name))?.name ?? queried(name);
    return isChoice || queried(name) ? menu(`facet.${name}`, chosen, all.slice(0, SHOWN).map((one) => option(one.name, queried(name) === one.value,
        () => goQuery({[name]: queried(name) === one.value ? null : one.value}), one.number))) : nothing;
}

/** Only videos that were added lately: a field of the query, so that it can be typed as well. */
function days() {
    const query = queried('q');
    const since = takeApart(query).find((part) => part.field === 'after');
    const dayOf = (number) => new Date(Date.now() - number * DAY_MS).toISOString().slice(0, 10);
    const others = since ? without(query, since.text) : query;
    return menu('facet.days', since?.value ?? '', DAYS.map((number) => {
        const isChosen = since?.value === dayOf(number);
        return option(t(`facet.days.${number}`), isChosen, () => goQuery({q: isChosen ? others : `${others} after:${dayOf(number)}`}));
    }));
}

const sure = () => html`<button class="chip" aria-pressed=${queried('min_confidence') === SURE} @click=${() => goQuery(
    {min_confidence: queried('min_confidence') ? null : SURE})}>${t('facet.sure')}</button>`;

/** @param {any} answer the first page of GET /search, with facets */
export const facetList = (answer) => html`<aside class="facets" aria-label=${t('facets')}>
    ${['kind', 'lang', 'match', 'video'].map((name) => group(answer?.facets, name))}${days()}${sure()}
    ${answer?.capped ? html`<small class="faint">${t('facets.capped')}</small>` : nothing}</aside>`;
