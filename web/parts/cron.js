/* A cron expression as a sentence: "every day at 02:30 in Berlin". */
import {language, t} from '../text.js';

const NAMED = {'@hourly': '0 * * * *', '@daily': '0 0 * * *', '@midnight': '0 0 * * *', '@weekly': '0 0 * * 0', '@monthly': '0 0 1 * *',
    '@yearly': '0 0 1 1 *', '@annually': '0 0 1 1 *'};
const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const MONTHS = ['', 'jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const MOST = 6; // values that a sentence lists

/** The values of a field; null: it says more than a list. @param {string} field @param {string[]} [names] */
function numbers(field, names = []) {
    const all = field.split(',').flatMap((part) => {
        const [from, to = from] = part.split('-').map((one) => (names.includes(one) ? names.indexOf(one) : /^\d+$/.test(one) ? Number(one) : NaN));
        return to >= from ? Array.from({length: to - from + 1}, (_, n) => from + n) : [NaN];
    });
    return all.some(Number.isNaN) ? null : all;
}

const list = (all) => new Intl.ListFormat(language, {type: 'conjunction'}).format(all.map(String));
const timeAt = (hour, minute) => new Intl.DateTimeFormat(language, {hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone: 'UTC'})
    .format(new Date(Date.UTC(2024, 0, 1, hour, minute)));
const dayName = (n) => new Intl.DateTimeFormat(language, {weekday: 'long', timeZone: 'UTC'}).format(new Date(Date.UTC(2024, 0, 7 + n)));
const monthName = (n) => new Intl.DateTimeFormat(language, {month: 'long', timeZone: 'UTC'}).format(new Date(Date.UTC(2024, n - 1, 1)));

/** On which days, without the time. */
function daysOf(day, weekday) {
    const [days, weekdays] = [day === '*' ? [] : numbers(day), weekday === '*' ? [] : numbers(weekday, WEEKDAYS)];
    if (!days || !weekdays || days.length && weekdays.length || days.length > MOST) {
        return null;
    }
    return days.length ? t('cron.monthly', {days: list(days)}) : !weekdays.length ? t('cron.daily')
        : String(weekdays) === '1,2,3,4,5' ? t('cron.weekdays') : t('cron.weekly', {days: list(weekdays.map(dayName))});
}

/** What recurs within a day. */
function withinDay(minute, hour) {
    const [, minutes] = /^\*\/(\d+)$/.exec(minute) ?? [];
    const [, hours] = /^\*\/(\d+)$/.exec(hour) ?? [];
    if (minutes && hour === '*') {
        return t('cron.minutes', {n: Number(minutes)});
    }
    if (!/^\d+$/.test(minute)) {
        return null;
    }
    return hour === '*' ? t('cron.hourly', {minute}) : hours ? t('cron.hours', {n: Number(hours), minute}) : null;
}

/**
 * @param {string} cron @param {string | null} zone
 * @returns {string} the expression itself where it says more than a sentence can
 */
export function sentenceOf(cron, zone) {
    const text = cron.trim().toLowerCase();
    const fields = (NAMED[text] ?? text).split(/\s+/);
    const raw = zone ? `${cron} ${zone}` : cron;
    if (fields.length !== 5) {
        return raw;
    }
    const [minute, hour, day, month, weekday] = fields;
    const [minutes, hours, months] = [numbers(minute), numbers(hour), month === '*' ? [] : numbers(month, MONTHS)];
    const days = daysOf(day, weekday);
    const isEachDay = day === '*' && weekday === '*';
    const within = isEachDay ? withinDay(minute, hour) : null;
    if (!within && (!days || !months || minutes?.length !== 1 || !hours || hours.length > MOST)) {
        return raw;
    }
    const when = within ?? t('cron.at', {days, times: list(hours.map((one) => timeAt(one, minutes[0])))});
    const inMonths = months?.length ? t('cron.months', {when, months: list(months.map(monthName))}) : when;
    const place = zone?.split('/').at(-1).replaceAll('_', ' ');
    return !place || within ? inMonths : t(place === 'UTC' ? 'cron.utc' : 'cron.in', {when: inMonths, place});
}
