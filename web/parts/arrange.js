/* The order of a collection: its cards are dragged, or put one place earlier or later by their buttons. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {t} from '../text.js';
import {forgetPages} from './pages.js';
import {titleOf} from './states.js';
import {say} from './toast.js';

export class Arrange {
    dragged = ''; // id

    /** @param {HTMLElement & {pages: any, update: () => void}} screen @param {() => string} collection its id; '': none is shown */
    constructor(screen, collection) {
        this.screen = screen;
        this.collection = collection;
    }

    /** Puts a video at the place that another one has. @param {string} id @param {number} to */
    async put(id, to) {
        const {pages} = this.screen;
        const from = pages.items.findIndex((one) => one.id === id);
        if (from < 0 || to < 0 || from === to) {
            return;
        }
        if (to + 1 >= pages.items.length && pages.next) {
            await pages.more(); // the video before which it comes
        }
        const others = pages.items.filter((one) => one.id !== id);
        const before = others[to]?.id;
        try {
            await ask(`/collections/${this.collection()}/videos`, {method: 'POST', body: {add: [id], ...before && {before}}});
        } catch (problem) {
            say(problem.text, 'bad');
            return;
        }
        forgetPages();
        pages.items = others.toSpliced(to, 0, pages.items[from]);
        this.screen.update();
        say(t('order.done', {title: titleOf(pages.items[to]), n: to + 1}));
    }

    async step(id, by) {
        await this.put(id, this.screen.pages.items.findIndex((one) => one.id === id) + by);
        await Promise.resolve();
        const card = this.screen.querySelector(`.card[data-id="${id}"]`);
        (card?.querySelector(`[data-by="${by}"]:enabled`) ?? card?.querySelector('[data-by]'))?.focus();
    }

    /** Takes videos out. @param {string[]} ids */
    async remove(ids) {
        try {
            await ask(`/collections/${this.collection()}/videos`, {method: 'POST', body: {remove: ids}});
        } catch (problem) {
            say(problem.text, 'bad');
        }
        forgetPages();
        this.screen.pages.again();
    }

    /** The buttons of a card. @param {any} video @param {number} n its place */
    buttons(video, n) {
        const {items, next} = this.screen.pages;
        const button = (by, icon, isLast) => html`<button class="plain" data-by=${by} ?disabled=${isLast} title=${t(by < 0 ? 'order.earlier' : 'order.later')}
            aria-label="${t(by < 0 ? 'order.earlier' : 'order.later')}: ${titleOf(video)}" @click=${() => this.step(video.id, by)}><cv-icon name=${icon}></cv-icon></button>`;
        return this.collection() ? html`<span class="order">${button(-1, 'earlier', n === 0)}${button(1, 'later', n === items.length - 1 && !next)}</span>` : nothing;
    }

    /** What is done while a card is dragged. */
    get events() {
        const cardOf = ({target}) => /** @type {HTMLElement | null} */ (this.collection() ? target.closest('.card') : null);
        const mark = (card) => this.screen.querySelectorAll('.card').forEach((one) => one.classList.toggle('over', one === card));
        return {
            dragstart: (event) => {
                this.dragged = cardOf(event)?.dataset.id ?? '';
            },
            dragover: (event) => {
                const card = this.dragged && cardOf(event);
                if (card) {
                    event.preventDefault();
                    mark(card);
                }
            },
            drop: (event) => {
                const card = cardOf(event);
                if (this.dragged && card) {
                    event.preventDefault();
                    this.put(this.dragged, this.screen.pages.items.findIndex((one) => one.id === card.dataset.id));
                }
            },
            dragend: () => {
                this.dragged = '';
                mark(null);
            },
        };
    }
}
