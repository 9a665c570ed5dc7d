/* What was found, as files that the API writes. */
import {html} from '../vendor/lit-html.js';
import {t} from '../text.js';

/** Links to all hits of a search as files; subtitles are of one video. @param {Record<string, any>} wishes of GET /search */
export function exportMenu({limit, facets, group, ...wishes}) {
    const address = (format) => `/api/v1/search/export?${new URLSearchParams({
        ...Object.fromEntries(Object.entries(wishes).filter(([, value]) => value)), format, ...format === 'csv' && {site: location.origin}})}`;
    return html`<details class="menu"><summary class="button"><cv-icon name="download"></cv-icon>${t('export')}</summary><div>${
        ['csv', 'jsonl', ...wishes.video ? ['srt'] : []].map((format) => html`<a href=${address(format)} download>${t(`export.${format}`)}</a>`)}</div></details>`;
}
