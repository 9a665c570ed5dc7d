/* The part of the picture that a clip shows: a frame over the player that is drawn, moved and pulled, and its numbers in the form. */
import {html, nothing} from '../vendor/lit-html.js';
import {Element} from '../element.js';
import {t} from '../text.js';

const STEP = 2; // pixels: encoders halve the colours' size
const LEAST = 16; // pixels of a side, as the API wants it
const INSET = 0.125; // of the picture that the first frame leaves at each side
const CORNERS = [['left', 'top'], ['right', 'top'], ['left', 'bottom'], ['right', 'bottom']];

const between = (value, least, most) => Math.min(Math.max(value, least), most);
const even = (value) => Math.round(value / STEP) * STEP;

/** Fires cv-crop when the part is another one. */
class Crop extends Element {
    area = null; // {x, y, width, height} in pixels of the original; null: the whole picture
    resolution = ''; // of the original
    /** @type {() => HTMLElement | null} where the picture is */ stage = () => null;

    get size() {
        return this.resolution.split('x').map(Number);
    }

    disconnectedCallback() {
        this.cover?.remove();
        this.observer?.disconnect();
    }

    /** Another part, within the picture. */
    set({x, y, width, height}) {
        const [most, highest] = this.size;
        const [w, h] = [between(even(width), LEAST, even(most)), between(even(height), LEAST, even(highest))];
        this.area = {x: between(even(x), 0, most - w), y: between(even(y), 0, highest - h), width: w, height: h};
        this.tell();
    }

    tell() {
        this.update();
        this.dispatchEvent(new CustomEvent('cv-crop', {bubbles: true}));
    }

    toggle() {
        const [width, height] = this.size;
        if (this.area) {
            this.area = null;
            this.tell();
        } else {
            this.set({x: width * INSET, y: height * INSET, width: width * (1 - 2 * INSET), height: height * (1 - 2 * INSET)});
        }
    }

    /** The part between two points. */
    span(a, b) {
        this.set({x: Math.min(a.x, b.x), y: Math.min(a.y, b.y), width: Math.abs(a.x - b.x), height: Math.abs(a.y - b.y)});
    }

    /** How the picture lies in the player: what a pixel of the original is, and where the first one is. */
    get place() {
        const {clientWidth: w, clientHeight: h} = this.cover;
        const [width, height] = this.size;
        const scale = Math.min(w / width, h / height);
        return {scale, left: (w - width * scale) / 2, top: (h - height * scale) / 2};
    }

    /** A new frame from where the pointer is, a corner that follows it, or the frame itself. @param {PointerEvent} event */
    drag(event) {
        event.preventDefault();
        const {scale, left, top} = this.place;
        const edge = this.cover.getBoundingClientRect();
        const pointOf = ({clientX, clientY}) => ({x: between((clientX - edge.left - left) / scale, 0, this.size[0]), y: between((clientY - edge.top - top) / scale, 0, this.size[1])});
        const [start, before] = [pointOf(event), this.area];
        const corner = CORNERS[/** @type {HTMLElement} */ (event.target).dataset.corner];
        const isFrame = event.target === this.frame;
        const fixed = !corner ? start : {x: corner[0] === 'left' ? before.x + before.width : before.x, y: corner[1] === 'top' ? before.y + before.height : before.y};
        this.cover.setPointerCapture(event.pointerId);
        this.cover.onpointermove = (moved) => {
            const point = pointOf(moved);
            if (isFrame) {
                this.set({...before, x: before.x + point.x - start.x, y: before.y + point.y - start.y});
            } else {
                this.span(fixed, point);
            }
        };
        this.cover.onpointerup = () => {
            this.cover.onpointermove = null;
        };
    }

    makeCover(stage) {
        this.cover = document.createElement('div');
        this.cover.className = 'crop-cover';
        this.cover.ariaHidden = 'true'; // its numbers are in the form
        this.frame = document.createElement('div');
        this.frame.append(...CORNERS.map((_, n) => {
            const made = document.createElement('i');
            made.dataset.corner = String(n);
            return made;
        }));
        this.cover.append(this.frame);
        this.cover.addEventListener('pointerdown', (event) => this.drag(event));
        this.observer = new ResizeObserver(() => this.drawn());
        this.observer.observe(this.cover);
        stage.append(this.cover);
    }

    drawn() {
        const stage = this.stage();
        if (!this.area || !stage) {
            this.disconnectedCallback();
            this.cover = null;
            return;
        }
        if (!this.cover) {
            this.makeCover(stage);
        }
        const {scale, left, top} = this.place;
        const {x, y, width, height} = this.area;
        for (const [name, value] of [['left', left + x * scale], ['top', top + y * scale], ['width', width * scale], ['height', height * scale]]) {
            this.frame.style.setProperty(name, `${value}px`);
        }
    }

    view() {
        const field = (name) => html`<label>${t(`crop.${name}`)} <input type="number" name=${`crop-${name}`} min="0" max=${this.size[['x', 'width'].includes(name) ? 0 : 1]} step=${STEP}
            .value=${String(this.area[name])} @change=${({target}) => this.set({...this.area, [name]: Number(target.value)})}></label>`;
        return !this.resolution ? nothing : html`<button type="button" aria-pressed=${!!this.area} @click=${() => this.toggle()}><cv-icon name="crop"></cv-icon>${t('crop')}</button>
            ${this.area ? ['x', 'y', 'width', 'height'].map(field) : nothing}`;
    }
}
customElements.define('cv-crop', Crop);
