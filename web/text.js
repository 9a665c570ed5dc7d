/* The page's words in the reader's language, and how numbers, times and sizes are written. */

import {answerTo} from './api.js';

export const language = document.documentElement.lang; // start.js has chosen it

const RETRY_MS = 2000; // before the texts are asked for again

let texts = {};

/** A format that is made when it is first used: the first of a kind takes milliseconds. @param {() => any} make */
function later(make) {
    let made = null;
    return () => (made ??= make());
}

const plural = later(() => new Intl.PluralRules(language));
const number = later(() => new Intl.NumberFormat(language));
const date = later(() => new Intl.DateTimeFormat(language, {dateStyle: 'medium'}));
const dateAndTime = later(() => new Intl.DateTimeFormat(language, {dateStyle: 'medium', timeStyle: 'medium'}));
const clockTime = later(() => new Intl.DateTimeFormat(language, {timeStyle: 'medium'}));
const shortTime = later(() => new Intl.DateTimeFormat(language, {weekday: 'short', hour: '2-digit', minute: '2-digit'}));
const relative = later(() => new Intl.RelativeTimeFormat(language, {numeric: 'auto'}));

/** Loads the texts; nothing is shown before that. */
export async function loadTexts() {
    const address = `/lang/${language}.json`;
    for (let isThere = false; !isThere;) { // without words there is no page
        try {
            const answer = await answerTo(address);
            isThere = answer.ok;
            texts = isThere ? await answer.json() : texts;
        } catch {
            isThere = false; // also where its end did not come
        }
        if (!isThere) {
            await new Promise((again) => {
                setTimeout(again, RETRY_MS);
            });
        }
    }
}

/** @param {string} chosen "en" or "de" */
export function chooseLanguage(chosen) {
    localStorage.setItem('language', chosen);
    location.reload();
}

/**
 * The text of a key; {names} in it are replaced. A text with forms for numbers is chosen by `n`.
 * @param {string} key
 * @param {Record<string, any>} [values]
 * @returns {string}
 */
export function t(key, values = {}) {
    let text = texts[key] ?? key;
    if (typeof text === 'object') {
        text = text[plural().select(values.n)] ?? text.other;
    }
    return text.replace(/\{(\w+)\}/g, (_, name) =>
        typeof values[name] === 'number' ? number().format(values[name]) : values[name] ?? '');
}

/** Whether there is a text of this key. @param {string} key */
export function hasText(key) {
    return key in texts;
}

/**
 * A position or a length in a video: 3:07, 1:02:03, with tenths 3:07.4.
 * @param {number} ms
 * @param {number} [digits] behind the point
 */
export function clock(ms, digits = 0) {
    const unit = 10 ** digits;
    const all = Math.floor(ms * unit / 1000);
    const seconds = Math.floor(all / unit);
    const rest = digits ? '.' + String(all % unit).padStart(digits, '0') : '';
    const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
    return (h ? `${h}:${String(m).padStart(2, '0')}` : `${m}`) + `:${String(s).padStart(2, '0')}${rest}`;
}

/**
 * The moment that somebody has typed as "1:02:03.5", "3:07" or "90".
 * @param {string} text
 * @returns {number | null} ms
 */
export function readClock(text) {
    const parts = text.trim().replace(',', '.').split(':');
    const isRight = parts.length <= 3 && parts.every((part, n) => (n === parts.length - 1 ? /^\d+(\.\d*)?$/ : /^\d+$/).test(part));
    return isRight ? Math.round(parts.reduce((sum, part) => sum * 60 + Number(part), 0) * 1000) : null;
}

const steps = [['year', 31536000], ['month', 2592000], ['week', 604800], ['day', 86400], ['hour', 3600],
    ['minute', 60], ['second', 1]];

/** "2 hours ago" @param {string | null} time RFC 3339 */
export function ago(time) {
    if (!time) {
        return '';
    }
    const seconds = (Date.parse(time) - Date.now()) / 1000;
    const [unit, size] = steps.find(([, length]) => Math.abs(seconds) >= length) ?? steps.at(-1);
    return relative().format(Math.round(seconds / size), unit);
}

/** "2.4 s", "3 min", "5 h" @param {number | null} ms */
export function span(ms) {
    if (ms === null || ms === undefined) {
        return '–';
    }
    const [size, name] = ms < 1000 ? [1, 'ms'] : ms < 60000 ? [1000, 's'] : ms < 5400000 ? [60000, 'min']
        : ms < 172800000 ? [3600000, 'h'] : [86400000, 'd'];
    const value = ms / size;
    return `${number().format(value < 10 && size > 1 ? Math.round(value * 10) / 10 : Math.round(value))} ${name}`;
}

/** A point of time as the steps of a diagram need it. @param {Date} time @param {number} step seconds */
export const timeOf = (time, step) => (step < 86400 ? shortTime : date)().format(time);
/** @param {Date} time */
export const timeOfDay = (time) => clockTime().format(time);
/** The time of day of a moment of a video. @param {string} recordedAt RFC 3339 @param {number} ms */
export const atTime = (recordedAt, ms) => new Date(Date.parse(recordedAt) + ms);
/** @param {string} time RFC 3339 */
export const day = (time) => date().format(new Date(time));
/** @param {string} time RFC 3339 */
export const moment = (time) => dateAndTime().format(new Date(time));
/** @param {string} time RFC 3339 @param {string | null} zone of its clock; null: the reader's */
export const momentIn = (time, zone) => new Intl.DateTimeFormat(language, {dateStyle: 'full', timeStyle: 'long', ...zone && {timeZone: zone}})
    .format(new Date(time));
/** @param {number} value */
export const count = (value) => number().format(value);

/** @param {number | null} bytes */
export function size(bytes) {
    if (bytes === null || bytes === undefined) {
        return '–';
    }
    const unit = Math.min(4, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
    const value = bytes / 1024 ** unit;
    return `${number().format(value < 10 && unit ? Math.round(value * 10) / 10 : Math.round(value))} ` +
        ['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit];
}

/** A language's own name in the reader's language, of Tesseract's ("eng", "chi_sim"). @param {string} model */
export function languageName(model) {
    try {
        return new Intl.DisplayNames([language], {type: 'language'}).of(model.slice(0, 3)) ?? model;
    } catch {
        return model;
    }
}
