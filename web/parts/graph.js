/* The steps of a workflow as a graph from left to right. */
import {html, svg} from '../vendor/lit-html.js';
import {typeName} from './states.js';
import {t} from '../text.js';

const WIDTH = 190; // of a step, pixels
const HEIGHT = 62;
const GAP_X = 56;
const GAP_Y = 20;

/** Where each step stands: one column behind the last of those that it needs. */
function layers(steps) {
    const column = new Map();
    const depth = (key, seen = new Set()) => {
        if (!column.has(key) && !seen.has(key)) {
            const before = steps.find((step) => step.key === key)?.depends_on ?? [];
            column.set(key, Math.max(-1, ...before.map((one) => depth(one, new Set([...seen, key])))) + 1);
        }
        return column.get(key) ?? 0;
    };
    const rows = [];
    return new Map(steps.map(({key}) => {
        const x = depth(key);
        rows[x] = (rows[x] ?? -1) + 1;
        return [key, {x: x * (WIDTH + GAP_X), y: rows[x] * (HEIGHT + GAP_Y)}];
    }));
}

/**
 * @param {{key: string, job_type?: string, depends_on?: string[], state?: string}[]} steps
 * @param {(step: any) => string} said what stands under a step's name
 * @param {string} name of the workflow
 */
export function graph(steps, said, name) {
    const at = layers(steps);
    const places = [...at.values()];
    const [width, height] = [Math.max(...places.map(({x}) => x)) + WIDTH, Math.max(...places.map(({y}) => y)) + HEIGHT];
    const edge = (from, to) => svg`<path class="edge" d="M${from.x + WIDTH} ${from.y + HEIGHT / 2}C${from.x + WIDTH + GAP_X / 2} ${
        from.y + HEIGHT / 2} ${to.x - GAP_X / 2} ${to.y + HEIGHT / 2} ${to.x} ${to.y + HEIGHT / 2}"/>`;
    return html`<div class="scroll" tabindex="0" role="region" aria-label=${t('run.graph', {name})}><svg class="graph" width=${width + 4}
        height=${height + 4} viewBox="-2 -2 ${width + 4} ${height + 4}" aria-hidden="true">
        ${steps.flatMap((step) => (step.depends_on ?? []).filter((key) => at.has(key)).map((key) => edge(at.get(key), at.get(step.key))))}
        ${steps.map((step) => svg`<g class=${step.state ?? ''} transform="translate(${at.get(step.key).x} ${at.get(step.key).y})">
            <rect width=${WIDTH} height=${HEIGHT} rx="12"/><text x="14" y="26">${typeName(step.job_type ?? step.key)}</text>
            <text class="small" x="14" y="46">${said(step)}</text></g>`)}</svg></div>`;
}
