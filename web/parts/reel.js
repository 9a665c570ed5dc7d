/* One film of all that a search has found: asked for, waited for, downloaded. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, who} from '../api.js';
import {Element} from '../element.js';
import {t} from '../text.js';
import {NARROWING} from './facets.js';
import {OPEN} from './states.js';
import {say} from './toast.js';

const WAIT_SECONDS = 3; // until the progress is asked for again

class Reel extends Element {
    #body = '';
    clip = null;
    mayMake = false;

    /** @param {Record<string, any>} wishes of GET /search */
    set wishes(wishes) {
        const body = Object.fromEntries(['q', 'sort', ...Object.keys(NARROWING)].filter((name) => wishes[name]).map((name) => [name, wishes[name]]));
        if (body.min_confidence) {
            body.min_confidence = Number(body.min_confidence);
        }
        if (this.#body !== JSON.stringify(body)) {
            this.#body = JSON.stringify(body);
            this.clip = null;
            this.update();
        }
    }

    async connectedCallback() {
        super.connectedCallback();
        this.mayMake = (await who().catch(() => ({role: 'viewer'}))).role !== 'viewer';
        this.update();
    }

    async make() {
        const asked = this.#body;
        this.clip = {state: 'queued'};
        this.update();
        try {
            let clip = await ask('/clips/reel', {method: 'POST', body: JSON.parse(asked)});
            while (OPEN.includes(clip.state) && this.isConnected && this.#body === asked) {
                this.clip = clip;
                this.update();
                clip = await ask(`/clips/${clip.id}`, {query: {wait: WAIT_SECONDS}});
            }
            if (this.#body === asked) {
                this.clip = clip.url ? clip : null;
                say(clip.error?.message ?? [t('reel.made', {n: clip.parts, of: clip.places}),
                    clip.left_out.length ? t('reel.left_out', {n: clip.left_out.length}) : ''].join(' '), clip.error ? 'bad' : 'good');
            }
        } catch (problem) {
            this.clip = null;
            say(problem.text, 'bad');
        }
        this.update();
    }

    view() {
        const {clip} = this;
        return !this.mayMake ? nothing : clip?.url ? html`<a class="button" href=${clip.url} download><cv-icon name="download"></cv-icon>${t('reel.download')}</a>`
            : html`<button ?disabled=${!!clip} title=${t('reel.title')} @click=${() => this.make()}><cv-icon name="film"></cv-icon>${
                clip ? html`<progress max="1" value=${clip.progress ?? 0} aria-label=${t('progress')}></progress>` : t('reel')}</button>`;
    }
}
customElements.define('cv-reel', Reel);
