/* The picture of a video; a quiet ground where there is none. */
import {html} from '../vendor/lit-html.js';
import {Element} from '../element.js';

class Poster extends Element {
    static observedAttributes = ['data-url'];

    attributeChangedCallback() {
        this.isBroken = false;
        this.update();
    }

    view() {
        const {url, video} = this.dataset;
        return url && !this.isBroken ? html`<img src=${url} alt="" loading="lazy" decoding="async" @error=${() => {
            this.isBroken = true;
            this.update();
        }}>` : html`<span class="ground hue-${parseInt(video.slice(-2), 16) % 6}"><cv-icon name="film"></cv-icon></span>`;
    }
}
customElements.define('cv-poster', Poster);
