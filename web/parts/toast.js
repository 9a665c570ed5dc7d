/* Short words about what has just happened, at the edge of the page. */
import {html} from '../vendor/lit-html.js';
import {Element} from '../element.js';

const SHOWN_MS = 6000;
let place = null;

class Toasts extends Element {
    items = [];

    connectedCallback() {
        place = this;
        this.setAttribute('role', 'status');
        this.update();
    }

    add(text, kind) {
        const item = {text, kind};
        this.items = [...this.items.slice(-2), item];
        this.update();
        setTimeout(() => {
            this.items = this.items.filter((one) => one !== item);
            this.update();
        }, SHOWN_MS);
    }

    view() {
        return html`${this.items.map((item) => html`<p class=${item.kind}>${item.text}</p>`)}`;
    }
}
customElements.define('cv-toasts', Toasts);

/** @param {string} text @param {'good' | 'bad'} [kind] */
export function say(text, kind = 'good') {
    place?.add(text, kind);
}

/** Copies a text, also where the browser keeps its clipboard to itself (plain HTTP). @param {string} text */
export async function copy(text, said) {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        const field = document.createElement('textarea');
        field.value = text;
        document.body.append(field);
        field.select();
        document.execCommand('copy');
        field.remove();
    }
    say(said);
}
