/* What a clip covers: kinds and texts are chosen, and the covered lines are listed before the clip is cut. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {Element, whenQuiet} from '../element.js';
import {clock, t} from '../text.js';

const KINDS = ['mail', 'phone', 'card', 'handle', 'url', 'hashtag'];
const PAUSE_MS = 300; // in typing, after which the texts are looked for
const LISTED = 200; // lines; all of them are covered

/** As a line for <cv-boxes>. @param {any} cover @param {number} id */
const box = ({from, to, width, height, track}, id) => ({id, text: '', t_start: from, t_end: to, track, box: {width, height}});

/** Fires cv-covers (detail: boxes over the picture) when something else is covered. */
class Covers extends Element {
    kinds = new Set();
    texts = '';
    found = [];
    problem = '';
    /** @type {() => any} the clip's request without what is covered; null: it has no ends yet */
    request = () => null;
    lookSoon = whenQuiet(() => this.look(), PAUSE_MS);

    /** The option `redact` of the clip; empty: nothing is covered. */
    get redact() {
        return [...this.kinds, ...this.texts.split('\n').map((text) => text.trim()).filter(Boolean)];
    }

    /** Asks what is covered now. */
    async look() {
        const request = this.request();
        const redact = this.redact;
        const asked = JSON.stringify([request, redact]);
        this.asked = asked;
        let found = [];
        let problem = '';
        if (request && redact.length) {
            try {
                ({covers: found} = await ask('/clips/covers', {method: 'POST', body: {...request, options: {...request.options, redact}}}));
            } catch (refused) {
                problem = refused.text;
            }
        }
        if (this.asked === asked) {
            [this.found, this.problem] = [found, problem];
            this.dispatchEvent(new CustomEvent('cv-covers', {detail: found.map(box), bubbles: true}));
            this.update();
        }
    }

    choose(kind, isChosen) {
        this.kinds[isChosen ? 'add' : 'delete'](kind);
        this.look();
    }

    line(cover) {
        return html`<li><span dir="auto">${cover.text}</span> <small>${KINDS.includes(cover.what) ? t(`cover.${cover.what}`) : cover.what} · ${clock(cover.t_start, 1)} – ${clock(cover.t_end, 1)}
            ${cover.is_certain ? nothing : html`<span class="badge">${t('cover.uncertain')}</span>`}</small></li>`;
    }

    view() {
        return html`<details><summary>${t('cover')}</summary>
            <fieldset><legend>${t('cover.kinds')}</legend>${KINDS.map((kind) => html`<label><input type="checkbox"
                @change=${(event) => this.choose(kind, event.target.checked)}>${t(`cover.${kind}`)}</label>`)}</fieldset>
            <label>${t('cover.texts')} <textarea rows="2" autocomplete="off" @input=${(event) => {
                this.texts = event.target.value;
                this.lookSoon();
            }}></textarea></label>
            ${this.redact.length ? html`<p role="status">${this.problem || t('cover.found', {n: this.found.length})}</p>` : nothing}
            ${this.found.length ? html`<ul>${this.found.slice(0, LISTED).map((cover) => this.line(cover))}</ul>
            <p class="faint">${t('cover.sound')}</p>` : nothing}</details>`;
    }
}
customElements.define('cv-covers', Covers);
