/* The steps of a workflow as a graph: from left to right, and on narrow windows from top to bottom. */
import {html, svg} from '../vendor/lit-html.js';
import {typeName} from './states.js';
import {t} from '../text.js';

const LETTER = 8.8; // width of a letter of a step's name, pixels
const NARROWEST = 150; // step, pixels
const MARGIN = 14;
const HEIGHT = 62;
const GAP_X = 56;
const GAP_Y = 20;
const DOWN_WIDTH = 360; // of the narrow graph; it is scaled to the window
const LANE = 13; // beside its steps, pixels from one line to the next

/** Where each step stands: one column behind the last of those that it needs. */
function layers(steps, stepWidth) {
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
        return [key, {x: x * (stepWidth + GAP_X), y: rows[x] * (HEIGHT + GAP_Y)}];
    }));
}

/** One box, with the name of the step and what is said of it. */
const box = (step, {x, y}, width, said) => svg`<g class=${step.state ?? ''} transform="translate(${x} ${y})">
    <rect width=${width} height=${HEIGHT} rx="12"/><text x=${MARGIN} y="26">${typeName(step.job_type ?? step.key)}</text>
    <text class="small" x=${MARGIN} y="46">${said(step)}</text></g>`;

/** One step to a row, those that are needed above; a line leads straight to the next row, or through a lane of its own at the side. */
function down(steps, columns, said) {
    const rows = [...steps].sort((a, b) => columns.get(a.key).x - columns.get(b.key).x);
    const rowOf = new Map(rows.map((step, n) => [step.key, n]));
    const edges = rows.flatMap((step) => (step.depends_on ?? []).filter((key) => rowOf.has(key)).map((key) => [rowOf.get(key), rowOf.get(step.key)]));
    const lanes = [...new Set(edges.filter(([from, to]) => to !== from + 1).map(([from]) => from))];
    const left = LANE * (lanes.length + 1);
    const top = (row) => row * (HEIGHT + GAP_Y);
    const path = ([from, to]) => {
        if (to === from + 1) {
            return `M${left + 2 * MARGIN} ${top(from) + HEIGHT}V${top(to)}`;
        }
        const lane = left - LANE * (lanes.indexOf(from) + 1);
        return `M${left} ${top(from) + HEIGHT / 2}Q${lane} ${top(from) + HEIGHT / 2} ${lane} ${top(from) + HEIGHT}V${top(to)}Q${lane} ${top(to) + HEIGHT / 2} ${left} ${top(to) + HEIGHT / 2}`;
    };
    return html`<svg class="graph down" viewBox="-2 -2 ${DOWN_WIDTH + 4} ${top(rows.length)}" aria-hidden="true">${
        edges.map((edge) => svg`<path class="edge" d=${path(edge)}/>`)}${rows.map((step, n) => box(step, {x: left, y: top(n)}, DOWN_WIDTH - left, said))}</svg>`;
}

/**
 * @param {{key: string, job_type?: string, depends_on?: string[], state?: string}[]} steps
 * @param {(step: any) => string} said what stands under a step's name
 * @param {string} name of the workflow
 */
export function graph(steps, said, name) {
    const nameOf = (step) => typeName(step.job_type ?? step.key);
    const longest = Math.max(...steps.flatMap((step) => [nameOf(step).length, said(step).length * 0.85])); // what is said is smaller
    const stepWidth = Math.max(NARROWEST, Math.ceil(longest * LETTER) + 2 * MARGIN);
    const at = layers(steps, stepWidth);
    const places = [...at.values()];
    const [width, height] = [Math.max(...places.map(({x}) => x)) + stepWidth, Math.max(...places.map(({y}) => y)) + HEIGHT];
    const edge = (from, to) => svg`<path class="edge" d="M${from.x + stepWidth} ${from.y + HEIGHT / 2}C${from.x + stepWidth + GAP_X / 2} ${
        from.y + HEIGHT / 2} ${to.x - GAP_X / 2} ${to.y + HEIGHT / 2} ${to.x} ${to.y + HEIGHT / 2}"/>`;
    return html`<div class="scroll" tabindex="0" role="region" aria-label=${t('run.graph', {name})}><svg class="graph across" width=${width + 4}
        height=${height + 4} viewBox="-2 -2 ${width + 4} ${height + 4}" aria-hidden="true">
        ${steps.flatMap((step) => (step.depends_on ?? []).filter((key) => at.has(key)).map((key) => edge(at.get(key), at.get(step.key))))}
        ${steps.map((step) => box(step, at.get(step.key), stepWidth, said))}</svg>${down(steps, at, said)}</div>`;
}
