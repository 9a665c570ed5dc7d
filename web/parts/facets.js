/* How the hits divide up, and the choice of a part of them; each choice stands in the address. */
import {html, nothing} from '../vendor/lit-html.js';
import {goQuery, queried} from '../router.js';
import {count, languageName, t} from '../text.js';

const SHOWN = 8; // values of a facet

/** Parameters of a search that narrow it down, and the facet of each. */
export const NARROWING = {kind: 'kind', lang: 'language', match: 'match', video: 'video'};

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

const group = (facets, name) => {
    const all = values(facets, name);
    const isChoice = all.length > 1 || (name === 'kind' && all.length); // many lines are of no kind
    return isChoice || queried(name) ? html`<section><h2>${t(`facet.${name}`)}</h2><ul>${all.slice(0, SHOWN).map((one) => html`<li>
        <button class="facet" aria-pressed=${queried(name) === one.value} dir="auto"
            @click=${() => goQuery({[name]: queried(name) === one.value ? null : one.value})}><span>${one.name}</span>
            <small>${count(one.number)}</small></button></li>`)}</ul></section>` : nothing;
};

/** @param {any} answer the first page of GET /search, with facets @param {boolean} isOpen of narrow windows */
export const facetList = (answer, isOpen) => html`<aside class="facets" aria-label=${t('facets')} ?data-open=${isOpen}>
    ${Object.keys(NARROWING).map((name) => group(answer?.facets, name))}
    ${answer?.capped ? html`<p class="faint">${t('facets.capped')}</p>` : nothing}</aside>`;
