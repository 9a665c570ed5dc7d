/* What every custom element of the page is made of: a view that is drawn again when something has changed. */
import {render} from './vendor/lit-html.js';

export class Element extends HTMLElement {
    #isQueued = false;

    connectedCallback() {
        this.update();
    }

    /** Draws the element again, once however often it is called before that. */
    update() {
        if (this.#isQueued) {
            return;
        }
        this.#isQueued = true;
        queueMicrotask(() => {
            this.#isQueued = false;
            if (this.isConnected) {
                render(this.view(), this);
                this.drawn();
            }
        });
    }

    /** What is to be seen now, a template. */
    view() {
        return null;
    }

    /** Called after each drawing. */
    drawn() {}
}

/**
 * Runs a function when nothing has called again for a while.
 * @param {(...values: any[]) => void} run
 * @param {number} ms
 */
export function whenQuiet(run, ms) {
    let timer = 0;
    return (...values) => {
        clearTimeout(timer);
        timer = setTimeout(() => run(...values), ms);
    };
}
