/* The search language as the page needs it: which fields a query has. What a query means is decided by the server. */

/** Fields that a query may have, and an example of each. */
export const fields = {
    'lang:': 'lang:deu', 'tag:': 'tag:recipe', 'from:': 'from:anna', 'after:': 'after:2026-01-01',
    'before:': 'before:2026-02-01', 'kind:': 'kind:url', 'conf:': 'conf:0.8', 'owner:': 'owner:me',
    'video:': 'video:ID', 'team:': 'team:ID', 'source:': 'source:subtitle', 'like:': 'like:ID', 'in:': 'in:interviews',
    'field:': 'field:camera=GX80', 'recorded:': 'recorded:2026-03', 'at:': 'at:2026-03-01T14:05',
};
const names = Object.keys(fields).map((one) => one.slice(0, -1));
const piece = new RegExp(`(-?)(?:(${names.join('|')}):("[^"]*"?|\\S*)|("[^"]*"?|\\S+))`, 'g');

/**
 * The parts of a query in their order.
 * @param {string} query
 * @returns {{text: string, field: string, value: string, isLeftOut: boolean}[]}
 */
export function takeApart(query) {
    return [...query.matchAll(piece)].map(([text, minus, field, value, plain]) => (
        {text, field: field ?? '', value: (value ?? plain).replaceAll('"', ''), isLeftOut: minus === '-'}));
}

/** The query without one of its parts. @param {string} query @param {string} text of the part */
export function without(query, text) {
    return takeApart(query).map((part) => part.text).filter((one) => one !== text).join(' ');
}

const SIGNS = ['@', '#']; // of names and of tags, without one
const NARROWING = names.filter((one) => !['tag', 'from', 'like', 'at', 'field'].includes(one));

/** Whether a query says where to search, but not yet what for. @param {string} query */
export const isWithoutWords = (query) => takeApart(query).every((part) => !part.isLeftOut && NARROWING.includes(part.field) || SIGNS.includes(part.text));

/** The address of a search. @param {string} query */
export const searchUrl = (query) => `/?q=${encodeURIComponent(query)}`;

export const {firstHits} = globalThis.start; // which has asked for them when the page begins with a search
