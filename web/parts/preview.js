/* The whole picture that a hit was found in, beside the pointer, with a box around the line. */
import {html, nothing} from '../vendor/lit-html.js';
import {Element} from '../element.js';

const WAIT_MS = 400; // before it comes up, so that it does not flicker
const WIDTH = 420; // pixels
const MARGIN = 12;

class Preview extends Element {
    hit = null;

    /** Shows the picture of a hit, or nothing. @param {any} hit @param {Element | null} beside */
    show(hit, beside) {
        clearTimeout(this.timer);
        if (!hit?.frame_url || innerWidth < WIDTH * 2) {
            this.hit = null;
            this.update();
            return;
        }
        this.timer = setTimeout(() => {
            const edge = beside.getBoundingClientRect();
            this.hit = hit;
            this.place = {left: innerWidth - WIDTH - MARGIN * 2, top: edge.bottom + MARGIN};
            this.update();
        }, WAIT_MS);
    }

    drawn() {
        const figure = this.querySelector('figure');
        if (figure) {
            const height = WIDTH * 9 / 16;
            const isBelow = this.place.top + height + MARGIN < innerHeight;
            figure.style.setProperty('left', `${this.place.left}px`);
            figure.style.setProperty('top', `${isBelow ? this.place.top : Math.max(MARGIN, this.place.top - height - 100)}px`);
        }
    }

    frame(event) {
        const {naturalWidth: width, naturalHeight: height} = event.target;
        const box = this.querySelector('.box');
        const part = (value, of) => `${100 * value / of}%`;
        const {frame_box: {x, y, width: w, height: h}} = this.hit; // the line may have moved by then
        for (const [name, value] of [['left', part(x, width)], ['top', part(y, height)], ['width', part(w, width)], ['height', part(h, height)]]) {
            box.style.setProperty(name, value);
        }
        box.hidden = false;
    }

    view() {
        return this.hit ? html`<figure class="preview" aria-hidden="true"><img src=${this.hit.frame_url} alt="" width=${WIDTH}
            @load=${(event) => this.frame(event)} @error=${() => this.show(null, null)}><span class="box" hidden></span></figure>` : nothing;
    }
}
customElements.define('cv-preview', Preview);
