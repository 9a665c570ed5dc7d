/* What the screens about work share: the way from one to the other, and a list that is one answer and stays up to date. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, who} from '../api.js';
import {atMostEvery, Element} from '../element.js';
import {listen} from '../live.js';
import {go} from '../router.js';
import {isLeaving, removeLater} from './deletions.js';
import {failure, skeleton} from './states.js';
import {say} from './toast.js';
import {t} from '../text.js';

/** The screens, by what one comes for. */
const GROUPS = {
    now: ['/overview', '/jobs', '/runs', '/failures'],
    fleet: ['/queues', '/workers', '/resources', '/performance'],
    automation: ['/schedules', '/webhooks', '/workflows', '/commands'],
    administration: ['/people', '/tenants', '/fields', '/shares', '/keys', '/rules', '/audit'],
};
const TENANTS = ['/jobs', '/runs', '/shares']; // what everybody may look at
const ADMINS = [...TENANTS, '/people', '/fields', '/schedules', '/webhooks', '/workflows', '/commands', '/audit', '/keys'];
const SETTLE_MS = 1000; // between two looks while things change

let role = '';

/** Asks once what the caller may see. */
export async function learnPlaces() {
    ({role} = await who());
    return role;
}

/** Whether the caller is the service itself, which alone says what programs and workflows there are. */
export const isService = () => role === 'service';

/** Whether the caller looks after everything. */
export const isOperator = () => role === 'service' || role === 'operator';

const mayGo = (path) => isOperator() || (role === 'admin' ? ADMINS : TENANTS).includes(path);

/** The way from one of these screens, also from that of one job or run, to the others. */
export const places = () => {
    const groups = Object.entries(GROUPS).map(([name, paths]) => [name, paths.filter(mayGo)]).filter(([, paths]) => paths.length);
    const isHere = (path) => location.pathname.startsWith(path);
    const nameOf = (path) => t(`nav${path.replace('/', '.')}`);
    return groups.flat(2).length < 3 ? nothing : html`<nav class="places" aria-label=${t('operate')}><select aria-label=${t('operate')}
        @change=${(event) => go(event.target.value)}>${groups.map(([name, paths]) => html`<optgroup label=${t(`operate.${name}`)}>${paths.map((path) => html`<option
            value=${path} ?selected=${isHere(path)}>${nameOf(path)}</option>`)}</optgroup>`)}</select>${groups.map(([name, paths]) => html`<section>
        <h2>${t(`operate.${name}`)}</h2>${paths.map((path) => html`<a href=${path} aria-current=${isHere(path) ? 'page' : nothing}>${nameOf(path)}</a>`)}</section>`)}</nav>`;
};

/** What a tenant is called, or which it is of those that nobody has named. @param {string} id @param {string | null} name */
export const tenantName = (id, name) => name ?? t('tenant.unnamed', {end: id.slice(-4)});

/** A screen of lists that are one answer each, read again when something has changed. */
export class Overview extends Element {
    /** @type {Record<string, any[]>} */ lists = {};
    #asked = 0; // how often, …
    #shown = 0; // … and which answer is shown

    /** Paths of the lists, by name. @returns {Record<string, string>} */
    get sources() {
        return {};
    }

    /** Its title's key. */
    get title() {
        return '';
    }

    get topic() {
        return 'queues';
    }

    async connectedCallback() {
        document.title = `${t(this.title)} · cortana`;
        this.update();
        await learnPlaces().catch(() => null); // the lists say what is wrong
        this.update();
        this.redraw = () => this.update();
        addEventListener('cv-leaving', this.redraw);
        this.again = atMostEvery(SETTLE_MS, () => this.load());
        if (isOperator()) {
            this.live = listen([this.topic], () => this.again());
        }
        this.load();
    }

    disconnectedCallback() {
        removeEventListener('cv-leaving', this.redraw);
        this.live?.stop();
    }

    onAddress() {
        this.load();
    }

    /** Does something by the API, says that it is done or why not, and looks again. @returns {Promise<any>} null: refused */
    async act(path, method, body, key) {
        let answer = null;
        try {
            answer = await ask(path, {method, body}) ?? {};
            say(t(key));
        } catch (problem) {
            say(problem.text, 'bad');
        }
        await this.load();
        return answer;
    }

    /** A list without what is being deleted. @param {string} name */
    listed(name) {
        return this.lists[name].filter((one) => !isLeaving(one.id ?? one.name));
    }

    /** Deletes something, unless it is wanted back. @param {{id: string, name: string}} one @param {string} path of the API, above it */
    async remove(one, path) {
        await removeLater([one], path);
        if (this.isConnected) {
            this.load();
        }
    }

    async load() {
        const number = ++this.#asked;
        const names = Object.keys(this.sources);
        const [answers, problem] = await Promise.all(names.map((name) => ask(this.sources[name]))).then((all) => [all, null], (one) => [null, one]);
        if (number < this.#shown) {
            return; // what was asked for later came earlier
        }
        this.#shown = number;
        this.problem = problem;
        answers?.forEach((answer, n) => {
            this.lists[names[n]] = answer.items ?? answer;
            this.isThere = true;
        });
        this.update();
    }

    /** What is to be seen once the lists are there. */
    content() {
        return nothing;
    }

    view() {
        return html`<div class="page"><div class="heading"><h1>${t(this.title)}</h1></div>${places()}
            ${this.problem ? failure(this.problem, () => this.load()) : nothing}
            ${this.isThere ? this.content() : this.problem ? nothing : skeleton('row', 4)}</div>`;
    }
}
