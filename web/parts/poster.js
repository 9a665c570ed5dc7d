/* The picture of a video, asked for when it comes into view; a quiet ground until then, and where there is none. */
import {html} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {Element} from '../element.js';

const KEPT = 500; // grants, which hold for hours
const grants = new Map();

/** Where a video's files are; asked for once. @param {string} id @returns {Promise<any>} null: nowhere */
export function grantOf(id) {
    if (!grants.has(id)) {
        grants.set(id, ask(`/videos/${id}/grant`, {method: 'POST'}).catch(() => null));
        if (grants.size > KEPT) {
            grants.delete(grants.keys().next().value);
        }
    }
    return grants.get(id);
}

const observer = new IntersectionObserver((seen) => {
    for (const {isIntersecting, target} of seen) {
        if (isIntersecting) {
            observer.unobserve(target);
            target.load();
        }
    }
}, {rootMargin: '200px'});

class Poster extends Element {
    url = '';

    connectedCallback() {
        observer.observe(this);
        this.update();
    }

    disconnectedCallback() {
        observer.unobserve(this);
    }

    async load() {
        const grant = this.dataset.status === 'ready' ? await grantOf(this.dataset.video) : null;
        if (grant?.poster) {
            this.url = grant.base_url + grant.poster;
            this.update();
        }
    }

    view() {
        return this.url ? html`<img src=${this.url} alt="" decoding="async" @error=${() => {
            this.url = '';
            this.update();
        }}>` : html`<span class="ground hue-${parseInt(this.dataset.video.slice(-2), 16) % 6}"><cv-icon name="film"></cv-icon></span>`;
    }
}
customElements.define('cv-poster', Poster);
