/* The API's refusals, and why jobs have failed, in the reader's language. The API says them in English, and a translation is
 * found by these words, in which % stands for a value. It has the values as {1}, {2}, …; {t1} is one that is a text of refusals
 * itself. */
import {language} from './text.js';

/** @type {Promise<[RegExp, string][]> | null} what is looked through from the front */
let translations = null;

/** How well words tell a text from others: those that begin with a value may be found within others. @param {string} words */
const weight = (words) => (words.startsWith('%') ? 0 : 1000) + words.replaceAll('%', '').length;

async function load() {
    const texts = Object.entries(await (await fetch(`/lang/refusals.${language}.json`)).json());
    return texts.sort(([one], [other]) => weight(other) - weight(one)).map(([words, translation]) => [
        new RegExp(`^${words.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll('%', '(.*?)')}$`, 's'), translation]);
}

/** @param {[RegExp, string][]} known @param {string | undefined} text @returns {string | undefined} */
function translate(known, text) {
    for (const [pattern, translation] of text ? known : []) {
        const values = pattern.exec(text);
        if (values) {
            return translation.replace(/\{(t?)(\d)\}/g, (_, isText, n) => (isText ? translate(known, values[n]) : values[n]));
        }
    }
    return text;
}

const loaded = () => (translations ??= load()).catch((fault) => {
    translations = null; // asked for again with the next one
    throw fault;
});

/** Puts reasons of jobs into the reader's language, in their places. @param {[any, string][]} places */
export async function translateReasons(places) {
    const known = await loaded();
    for (const [part, name] of places) {
        part[name] = translate(known, part[name]);
    }
}

/**
 * A refusal whose texts are in the reader's language; what has no translation stays as it is.
 * @param {any} body as the API answers it
 * @returns {Promise<any>}
 */
export async function inReadersLanguage(body) {
    const known = await loaded();
    return {...body, title: translate(known, body.title), detail: translate(known, body.detail),
        errors: body.errors?.map((error) => ({...error, detail: translate(known, error.detail)}))};
}
