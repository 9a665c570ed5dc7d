/* What was found, as a file for a spreadsheet. */
import {ask} from '../api.js';
import {clock, t} from '../text.js';
import {say} from './toast.js';

const PAGE = 100; // hits asked for at once, the most the API gives
const cell = (value) => `"${String(value ?? '').replaceAll('"', '""')}"`;

/** Saves all hits of a search as CSV. @param {Record<string, any>} wishes of GET /search */
export async function saveHits(wishes) {
    const rows = [['video', 'from', 'to', 'text', 'confidence', 'language', 'link']];
    try {
        let cursor = null;
        do {
            const page = await ask('/search', {query: {...wishes, facets: null, limit: PAGE, cursor}});
            rows.push(...page.items.map((hit) => [hit.video_title, clock(hit.t_start, 3), clock(hit.t_end, 3), hit.text, hit.confidence,
                hit.language, `${location.origin}/videos/${hit.video_id}?t=${(hit.t_start / 1000).toFixed(3)}`]));
            cursor = page.next;
        } while (cursor);
    } catch (problem) {
        say(problem.text, 'bad');
        return;
    }
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([rows.map((row) => row.map(cell).join(',')).join('\r\n')], {type: 'text/csv'}));
    link.download = `${wishes.q.replaceAll(/[^\p{L}\p{N}]+/gu, '-')}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    say(t('export.done', {n: rows.length - 1}));
}
