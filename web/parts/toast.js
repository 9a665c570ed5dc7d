/* Short words about what has just happened, at the edge of the page. */
import {html, nothing} from '../vendor/lit-html.js';
import {Element} from '../element.js';

const SHOWN_MS = 6000;
const SHOWN = 3; // at most, beside those that offer something
const TICK_MS = 250;
let place = null;

class Toasts extends Element {
    items = [];

    connectedCallback() {
        place = this;
        this.setAttribute('role', 'status');
        this.setAttribute('aria-atomic', 'false'); // what stands there already is not said again
        document.addEventListener('keydown', (event) => this.onKey(event));
        this.update();
    }

    /** @param {{text: string, kind?: string, action?: string, left: number, done?: (isWanted: boolean) => void}} item left: ms */
    add(item) {
        const plain = this.items.filter((one) => !one.action);
        const tooMany = new Set(item.action ? [] : plain.slice(0, Math.max(plain.length - SHOWN + 1, 0)));
        this.items = [...this.items.filter((one) => !tooMany.has(one)), item];
        this.seen ??= Date.now();
        this.timer ||= setInterval(() => this.tick(), TICK_MS);
        this.update();
    }

    /** Time passes, but not for what somebody points at or is about to press. */
    tick() {
        const passed = Date.now() - this.seen;
        this.seen += passed;
        const held = this.matches(':hover, :focus-within') && !document.hidden;
        for (const item of this.items.filter((one) => !one.action || !held)) {
            item.left -= passed;
        }
        this.items.filter((one) => one.left <= 0).forEach((one) => this.end(one, false));
        this.update();
    }

    end(item, isWanted) {
        this.items = this.items.filter((one) => one !== item);
        if (!this.items.length) {
            clearInterval(this.timer);
            this.timer = this.seen = null;
        }
        item.done?.(isWanted);
        this.update();
    }

    onKey(event) {
        const item = this.items.findLast((one) => one.action);
        const isTyping = event.target.closest('input:not([type="checkbox"], .seek), textarea, select, dialog');
        if (item && event.key === 'z' && (event.ctrlKey || event.metaKey) && !event.shiftKey && !isTyping) {
            event.preventDefault();
            this.end(item, true);
        }
    }

    view() {
        return html`${this.items.map((item) => html`<div class=${item.kind ?? 'good'}><p>${item.text}</p>${item.action ? html`<span
            aria-hidden="true">${Math.ceil(item.left / 1000)} s</span><button title="Ctrl+Z" @click=${() => this.end(item, true)}>${item.action}</button>` : nothing}</div>`)}`;
    }
}
customElements.define('cv-toasts', Toasts);

/** @param {string} text @param {'good' | 'bad'} [kind] */
export function say(text, kind = 'good') {
    place?.add({text, kind, left: SHOWN_MS});
}

/**
 * Says something that can be taken back for a while, by a button or Ctrl+Z; the time stands still while one points at it.
 * @param {string} text @param {string} action @param {number} ms
 * @returns {Promise<boolean>} whether it was
 */
export function offer(text, action, ms) {
    return new Promise((done) => {
        place.add({text, action, left: ms, done});
    });
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
