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
 * Runs a function a while after it was called, however often it is called meanwhile, and once more for calls that came while it ran.
 * It is for what must be up to date while events never stop.
 * @param {number} ms
 * @param {() => any} run
 */
export function atMostEvery(ms, run) {
    let isWaiting = false;
    let isAgain = false;
    const call = () => {
        if (isWaiting) {
            isAgain = true;
            return;
        }
        isWaiting = true;
        setTimeout(async () => {
            isAgain = false;
            try {
                await run();
            } finally {
                isWaiting = false;
                if (isAgain) {
                    call();
                }
            }
        }, ms);
    };
    return call;
}

/**
 * Runs a function when nothing has called again for a while: it is for typing.
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
