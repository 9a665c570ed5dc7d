/* What somebody without an account sees of a link: a video or a part of it, a clip, or what a search has found. Nothing leads on
 * from here. Below /embed it is the player alone. */
import {html, nothing} from './vendor/lit-html.js';
import {Element} from './element.js';
import {clock, day, loadTexts, t} from './text.js';
import './parts/icon.js';
import './parts/player.js';
import './parts/toast.js';

const LINES = 5000; // of a page of them
const [, place, code] = location.pathname.split('/');
const base = `/api/v1/shared/${code}`;
const isEmbedded = place === 'embed';

/** Without the cookie of somebody who happens to be signed in. @param {string} path @param {string} [method] @returns {Promise<any>} */
async function ask(path, method = 'GET') {
    const answer = await fetch(base + path, {method, credentials: 'omit', headers: {'X-Cortana': '1'}});
    if (!answer.ok) {
        throw answer;
    }
    return answer.json();
}

class Shared extends Element {
    /** @type {any} */ thing = null;
    state = 'loading';

    connectedCallback() {
        document.body.classList.toggle('embedded', isEmbedded);
        this.load();
    }

    async load() {
        try {
            this.thing = await ask('', 'POST');
            this.state = 'there';
        } catch (problem) {
            this.state = problem.status === 404 || problem.status === 400 ? 'gone' : 'away';
        }
        this.update();
        await Promise.resolve();
        this.play();
    }

    get player() {
        return /** @type {any} */ (this.querySelector('cv-player'));
    }

    async play() {
        const {player, thing} = this;
        if (!player || !thing.playlist) {
            return;
        }
        player.mode = 'all';
        player.addEventListener('cv-expired', () => this.renew());
        await player.load({...thing, id: code}, thing, thing.at_ms);
        let cursor = '';
        do {
            const page = await ask(`/lines?limit=${LINES}${cursor && `&cursor=${cursor}`}`).catch(() => ({items: [], next: null}));
            player.lines = [...player.lines, ...page.items];
            player.update();
            cursor = page.next;
        } while (cursor);
    }

    /** The player's right has ended, as after a long pause: goes on where it was, if the link still works. */
    async renew() {
        try {
            this.thing = await ask('?again=true', 'POST');
            await this.player.load({...this.thing, id: code}, this.thing, this.player.now);
        } catch {
            this.state = 'gone';
            this.update();
        }
    }

    clip() {
        const {format, url, title} = this.thing;
        return html`<div class="stage">${format === 'gif' || format === 'jpg' ? html`<img src=${url} alt=${title}>`
            : html`<video controls playsinline preload="metadata" src=${url} poster=${this.thing.has_picture ? `${base}/picture` : nothing}></video>`}</div>`;
    }

    found() {
        return html`<ol class="alerts">${this.thing.found.map((one) => html`<li><div class="shot"><img alt="" loading="lazy"
                src="${base}/picture?video=${one.video}" @error=${({target}) => target.remove()}></div>
            <div><h2 dir="auto">${one.title ?? t('untitled')}</h2><p class="faint">${day(one.matched_at)}</p>
            <ol>${one.moments.map((line) => html`<li>${clock(line.t_start)} <span dir="auto">${line.text}</span></li>`)}</ol></div></li>`)}</ol>
            ${this.thing.found.length ? nothing : html`<p class="faint">${t('shared.none')}</p>`}`;
    }

    /** Where the file comes from, if it may be downloaded. */
    download() {
        const {thing} = this;
        const file = thing.original ? thing.base_url + thing.original : thing.kind === 'clip' ? thing.url : '';
        const name = (thing.name ?? '').replace(/[^A-Za-z0-9_.-]+/g, '-').replace(/^[-.]+/, '').slice(-80);
        return thing.may_download && file ? html`<a class="button" href="${file}${name ? `?name=${name}` : ''}" download>
            <cv-icon name="download"></cv-icon>${t('clip.download')}</a>` : nothing;
    }

    facts() {
        const {from_ms: from, to_ms: to, kind, platform, recorded_at: recorded, duration_ms: length} = this.thing;
        return html`<p class="facts faint">${kind === 'search' ? nothing : html`<span>${to === null ? clock(length ?? 0)
            : t('shared.part', {from: clock(from), to: clock(to)})}</span>`}
            ${platform ? html`<span dir="auto">${platform}</span>` : nothing}
            ${recorded ? html`<span>${t('words.recorded')} ${day(recorded)}</span>` : nothing}
            ${this.thing.ends_at ? html`<span>${t('shared.until', {day: day(this.thing.ends_at)})}</span>` : nothing}</p>`;
    }

    content() {
        const {kind, playlist} = this.thing;
        return kind === 'search' ? this.found() : kind === 'clip' ? this.clip()
            : playlist ? html`<cv-player .poster=${this.thing.has_picture ? `${base}/picture` : ''} .recordedAt=${this.thing.recorded_at}></cv-player>`
                : html`<p class="why-box">${t('shared.soon')}</p>`;
    }

    view() {
        if (this.state === 'loading') {
            return nothing;
        }
        if (this.state !== 'there') {
            return html`<main class="page narrow"><h1>${t(`shared.${this.state}`)}</h1><p>${t(`shared.${this.state}.text`)}</p>
                ${this.state === 'away' ? html`<p><button class="main" @click=${() => this.load()}>${t('again')}</button></p>` : nothing}</main>`;
        }
        return isEmbedded ? html`<main aria-label=${this.thing.title}>${this.content()}</main>`
            : html`<main class="page">${this.content()}<div class="heading"><h1 dir="auto">${this.thing.title}</h1>
                <p class="actions">${this.download()}</p></div>${this.facts()}</main>`;
    }
}

document.documentElement.dataset.theme = localStorage.getItem('theme') ?? '';
await loadTexts();
globalThis.start.arrived();
customElements.define('cv-shared', Shared);
