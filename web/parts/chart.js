/* Numbers over time as bars, and the same as a table for those who do not see them. */
import {html, nothing, svg} from '../vendor/lit-html.js';
import {count, t, timeOf} from '../text.js';

const WIDTH = 1000;
const HEIGHT = 120;

/**
 * A value for each step of a stretch of time; what is missing is nothing.
 * @param {{at: string}[]} points @param {(point: any) => number} value
 * @param {{after: string, before: string, step_seconds: number}} stretch
 */
function row(points, value, {after, before, step_seconds: step}) {
    const from = Date.parse(after);
    const all = new Array(Math.max(1, Math.ceil((Date.parse(before) - from) / step / 1000))).fill(0);
    for (const point of points) {
        const at = Math.floor((Date.parse(point.at) - from) / step / 1000);
        if (at >= 0 && at < all.length) {
            all[at] += value(point);
        }
    }
    return all;
}

/** A small line without words. @param {number[]} values at least one @param {number} [top] the value at the upper edge */
export function line(values, top = Math.max(...values, 1)) {
    const path = values.map((value, n) => `${n ? 'L' : 'M'}${(n / Math.max(values.length - 1, 1) * 100).toFixed(1)} ${
        (23 - 21 * value / top).toFixed(1)}`).join('');
    return html`<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true"><path d=${path}/></svg>`;
}

/** What was done over time. @param {any[]} points @param {any} stretch of the answer */
export const spark = (points, stretch) => line(row(points, (point) => point.done, stretch));

/** What was made, done and failed, of all types together. @param {any} history the answer of GET /stats/throughput */
export function throughput(history) {
    const points = history.items.flatMap((one) => one.points);
    const kinds = {enqueued: (point) => point.enqueued, done: (point) => point.done, dead: (point) => point.dead};
    const rows = Object.fromEntries(Object.entries(kinds).map(([name, value]) => [name, row(points, value, history)]));
    const length = rows.done.length;
    const most = Math.max(...rows.enqueued, ...rows.done, 1);
    const step = WIDTH / length;
    const at = (n) => new Date(Date.parse(history.after) + n * history.step_seconds * 1000);
    const said = (n) => `${timeOf(at(n), history.step_seconds)}: ${Object.keys(kinds).map((name) => `${t(`chart.${name}`)} ${count(rows[name][n])}`).join(', ')}`;
    const bar = (name, n, height = HEIGHT * rows[name][n] / most) => height ? svg`<rect class=${name} x=${n * step + step * 0.1}
        y=${HEIGHT - height} width=${step * 0.8} height=${height}/>` : nothing;
    const line = rows.enqueued.map((value, n) => `${n ? 'L' : 'M'}${(n + 0.5) * step} ${HEIGHT - HEIGHT * value / most}`).join('');
    const isEmpty = !points.some((point) => point.enqueued || point.done || point.dead);
    return html`<figure class="chart"><figcaption><span class="key done">${t('chart.done')}</span><span class="key dead">${t('chart.dead')}</span>
            <span class="key enqueued">${t('chart.enqueued')}</span><span class="faint">${t('chart.most', {n: most})}</span></figcaption>
        ${isEmpty ? html`<p class="faint">${t('chart.none')}</p>` : html`<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">
            ${rows.done.map((_, n) => svg`<g>${bar('done', n)}${bar('dead', n)}<rect class="hit-area" x=${n * step} y="0" width=${step}
                height=${HEIGHT}><title>${said(n)}</title></rect></g>`)}<path class="enqueued" d=${line}/></svg>`}
        <p class="faint ends"><span>${timeOf(at(0), history.step_seconds)}</span><span>${timeOf(new Date(history.before), history.step_seconds)}</span></p>
        <details><summary class="faint">${t('chart.table')}</summary><div class="scroll" tabindex="0" role="region" aria-label=${t('chart.table')}><table><thead><tr><th>${
            t('event.time')}</th>${Object.keys(kinds).map((name) => html`<th>${t(`chart.${name}`)}</th>`)}</tr></thead>
            <tbody>${rows.done.map((_, n) => Object.keys(kinds).some((name) => rows[name][n]) ? html`<tr><td>${timeOf(at(n), history.step_seconds)}</td>
            ${Object.keys(kinds).map((name) => html`<td data-label=${t(`chart.${name}`)}>${count(rows[name][n])}</td>`)}</tr>` : nothing)}</tbody></table></div></details></figure>`;
}
