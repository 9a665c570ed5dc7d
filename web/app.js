/* The shell: header, screens by path, signing in, theme, what is said when the server is away. */
import {html, nothing} from './vendor/lit-html.js';
import {ask, onSignIn, subjectOf, useToken, waitFor, whoIsSignedIn} from './api.js';
import {Element} from './element.js';
import {queried, remembered, startRouter} from './router.js';
import {chooseLanguage, language, loadTexts, t, timeOfDay} from './text.js';
import './parts/icon.js';
import './parts/search-box.js';
import './parts/sign-in.js';
import './parts/toast.js';

const screens = [
    [/^\/$/, 'search', 'screen-search'],
    [/^\/videos$/, 'library', 'screen-library'],
    [/^\/upload$/, 'library', 'screen-library'],
    [/^\/videos\/([0-9a-f-]{36})$/, 'video', 'screen-video'],
    [/^\/alerts$/, 'alerts', 'screen-alerts'],
    [/^\/overview$/, 'overview', 'screen-overview'],
    [/^\/jobs$/, 'jobs', 'screen-jobs'],
    [/^\/queues$/, 'queues', 'screen-queues'],
    [/^\/runs$/, 'runs', 'screen-runs'],
    [/^\/runs\/([0-9a-f-]{36})$/, 'run', 'screen-run'],
    [/^\/workers$/, 'workers', 'screen-workers'],
    [/^\/failures$/, 'failures', 'screen-failures'],
    [/^\/schedules$/, 'schedules', 'screen-schedules'],
    [/^\/schedules\/([0-9a-f-]{36})$/, 'schedule', 'screen-schedule'],
    [/^\/webhooks$/, 'webhooks', 'screen-webhooks'],
    [/^\/webhooks\/([a-z][a-z0-9_.:-]*)$/, 'webhook', 'screen-webhook'],
    [/^\/performance$/, 'performance', 'screen-performance'],
    [/^\/resources$/, 'resources', 'screen-resources'],
    [/^\/tenants$/, 'tenants', 'screen-tenants'],
    [/^\/rules$/, 'rules', 'screen-rules'],
    [/^\/workflows$/, 'workflows', 'screen-workflows'],
    [/^\/workflows\/([a-z][a-z0-9_]*)$/, 'workflow', 'screen-workflow'],
    [/^\/commands$/, 'commands', 'screen-commands'],
    [/^\/audit$/, 'audit', 'screen-audit'],
    [/^\/fields$/, 'fields', 'screen-fields'],
    [/^\/keys$/, 'keys', 'screen-keys'],
    [/^\/people$/, 'people', 'screen-people'],
    [/^\/account$/, 'account', 'screen-account'],
    [/^\/shares$/, 'shares', 'screen-shares'],
    [/^\/signed-in$/, 'signed-in', 'screen-signed-in'],
    [/^\/invitation$/, 'invitation', 'screen-invitation'],
    [/^\/unsubscribe$/, 'unsubscribe', 'screen-unsubscribe'],
    [/^\/jobs\/([0-9a-f-]{36})$/, 'job', 'screen-job'],
];

const AWAY_MS = 1000; // before the server that does not answer is asked again; doubled up to
const AWAY_LONGEST_MS = 8000;

const WORK = /^\/(overview|jobs|queues|runs|workers|failures|performance|resources|tenants|rules|schedules|webhooks|workflows|commands|audit|fields|keys|people|shares)\b/;

function applyTheme() {
    document.documentElement.dataset.theme = localStorage.getItem('theme') ?? '';
    document.documentElement.style.setProperty('--origin', JSON.stringify(location.origin)); // of addresses on paper
}

class App extends Element {
    away = ''; // what keeps the server from answering
    wait = AWAY_MS; // before it is asked again
    backAt = 0; // when it answered again
    progress = ''; // of what the reader waits for: '', 'waiting', 'slow'
    lostAt = null; // when the live events were cut
    name = '';

    connectedCallback() {
        onSignIn(() => this.querySelector('cv-sign-in').ask());
        addEventListener('cv-away', ({detail}) => this.setAway(detail));
        addEventListener('cv-live', ({detail: isLive}) => {
            this.dataset.live = isLive;
            this.lostAt = isLive ? null : this.lostAt ?? new Date();
            this.update();
        });
        addEventListener('cv-progress', ({detail}) => {
            this.progress = detail;
            this.update();
        });
        addEventListener('keydown', (event) => this.onKey(event));
        addEventListener('click', (event) => this.closeMenus(event.target));
        new MutationObserver(() => { // a screen says its title when it knows it
            const place = this.querySelector('#announcer');
            if (place.textContent !== document.title) { // else it would be said again
                place.textContent = document.title;
            }
        }).observe(document.head, {childList: true, characterData: true, subtree: true});
        startRouter(() => this.route());
        this.update();
        this.route();
        if (sessionStorage.getItem('deletions')) {
            import('./parts/deletions.js').then(({goOnDeleting}) => goOnDeleting());
        }
    }

    /** @param {string} away what keeps it from answering; '': it answers again, and the screen goes on */
    setAway(away) {
        const wasAway = this.away;
        this.away = away;
        this.update();
        if (!wasAway) {
            this.wait = Date.now() - this.backAt < AWAY_LONGEST_MS ? this.wait : AWAY_MS;
            this.lookLater();
        } else if (!away) {
            this.backAt = Date.now();
            if (this.screen) {
                this.screen.onAddress?.(true);
            } else {
                this.route();
            }
        }
    }

    lookLater() {
        this.timer = setTimeout(() => this.look(), this.wait);
        this.wait = Math.min(this.wait * 2, AWAY_LONGEST_MS);
    }

    /** Whether the server answers again. */
    async look() {
        clearTimeout(this.timer);
        if (await ask('/me').then(() => true, (problem) => problem.status && problem.status !== 503)) {
            this.setAway('');
        } else {
            this.lookLater();
        }
    }

    /** Shows the screen of the address; the same one is told that the address has changed. */
    async route() {
        const found = screens.find(([pattern]) => pattern.test(location.pathname));
        const [pattern, name, tag] = found ?? [/.*/, 'missing', 'screen-missing'];
        const id = pattern.exec(location.pathname)?.[1] ?? '';
        const isSame = this.screen?.localName === tag && this.screen.dataset.id === id;
        this.name = name;
        this.update();
        if (isSame) {
            this.screen.onAddress?.(); // at once: what is asked for here is on its way before anything is drawn
            return;
        }
        const arrived = globalThis.start.expectParts();
        try {
            await waitFor(import(`./screens/${name}.js`));
        } catch {
            this.screen = null; // what is shown is not what the address says
            this.setAway(t('problem.away'));
            return;
        } finally {
            arrived();
        }
        if (this.name !== name) {
            return; // meanwhile somewhere else
        }
        const screen = document.createElement(tag);
        screen.dataset.id = id;
        const isLater = !!this.screen;
        this.screen = screen;
        this.querySelector('main').replaceChildren(screen);
        if (!remembered().y) {
            scrollTo(0, 0);
        }
        if (isLater && !document.activeElement?.closest('input')) {
            this.querySelector('main').focus({preventScroll: true}); // so that Tab goes on here, and not from the link that is gone
        }
    }

    /** @param {Node} [besides] what lies within a menu leaves that one open */
    closeMenus(besides) {
        for (const menu of this.querySelectorAll('.menu[open]')) {
            menu.open = !!besides && menu.contains(besides);
        }
    }

    onKey(event) {
        if (event.key === 'Escape') {
            this.closeMenus();
        }
        const isTyping = event.target.closest('input, textarea, select, [contenteditable]');
        if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) {
            return;
        }
        if (event.key === '/') {
            const boxes = [...document.querySelectorAll('cv-search-box input')];
            const box = boxes.find((one) => one.offsetParent);
            if (box) {
                event.preventDefault();
                box.focus();
                box.select();
            }
        } else if (event.key === '?') {
            this.querySelector('#keys').showModal();
        }
    }

    nextTheme() {
        const all = ['', 'light', 'dark'];
        const next = all[(all.indexOf(localStorage.getItem('theme') ?? '') + 1) % all.length];
        localStorage.setItem('theme', next);
        applyTheme();
        this.update();
    }

    link(path, key, icon) {
        const isHere = path === '/jobs' ? WORK.test(location.pathname) : location.pathname.startsWith(path);
        return html`<a href=${path} title=${t(key)} aria-current=${isHere ? 'page' : nothing}>
            <cv-icon name=${icon}></cv-icon><span>${t(key)}</span></a>`;
    }

    view() {
        const theme = localStorage.getItem('theme') || 'auto';
        const isStart = location.pathname === '/' && !queried('q');
        return html`
            <a class="skip" href="#main" @click=${(event) => {
                event.preventDefault();
                this.querySelector('main').focus();
            }}>${t('skip')}</a>
            <header class="top">
                <a class="brand" href="/" title=${t('home')}><cv-icon name="mark"></cv-icon><span>cortana</span></a>
                <cv-search-box ?hidden=${isStart}></cv-search-box>
                <nav aria-label=${t('nav')}>
                    ${this.link('/videos', 'nav.library', 'library')}
                    ${this.link('/alerts', 'nav.alerts', 'bell')}
                    ${this.link('/jobs', 'nav.jobs', 'jobs')}
                </nav>
                <div class="tools">
                    <button class="plain" @click=${() => this.nextTheme()} title=${t(`theme.${theme}`)}
                        aria-label=${t(`theme.${theme}`)}><cv-icon name=${`theme-${theme}`}></cv-icon></button>
                    <button class="plain words" @click=${() => chooseLanguage(language === 'en' ? 'de' : 'en')}
                        lang=${language === 'en' ? 'de' : 'en'} title=${t('language.other')}>
                        ${language === 'en' ? 'DE' : 'EN'}</button>
                    <details class="menu account" @toggle=${({target}) => target.open && import('./parts/account.js').then(() => target.lastElementChild.load())}>
                        <summary class="button plain" title=${t('account')} aria-label=${t('account')}><cv-icon name="person"></cv-icon></summary>
                        <cv-account></cv-account></details>
                </div>
            </header>
            <div class="progress-line" ?hidden=${!this.progress} role="status"><span class="unseen">${this.progress ? t('loading') : ''}</span></div>
            ${this.progress === 'slow' && !this.away ? html`<p class="away" role="status">${t('problem.slow')}</p>` : nothing}
            ${this.away ? html`<p class="away" role="status">${this.away}
                <button @click=${() => this.look()}>${t('again')}</button></p>` : nothing}
            ${this.lostAt && !this.away ? html`<p class="away" role="status">${t('live.lost', {time: timeOfDay(this.lostAt)})}</p>` : nothing}
            <main id="main" tabindex="-1"></main>
            <div id="announcer" class="unseen" aria-live="polite"></div>
            <cv-sign-in></cv-sign-in>
            <cv-toasts></cv-toasts>
            <dialog id="keys" class="sheet" aria-labelledby="keys-title">
                <h2 id="keys-title">${t('keys')}</h2>
                <dl class="keys">${['search', 'move', 'open', 'play', 'jump', 'frame', 'goto', 'parts', 'volume', 'speed', 'theatre', 'clip', 'gif', 'in', 'next', 'boxes', 'undo', 'help']
                    .map((name) => html`<dt>${t(`keys.${name}.key`).split(' ')
                        .map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${t(`keys.${name}`)}</dd>`)}</dl>
                <form method="dialog"><button>${t('close')}</button></form>
            </dialog>`;
    }
}

const isService = ({role}) => role === 'service' || role === 'operator';

/** A link carries a token, or the code of `cortana run`, behind the #, which browsers do not send. */
async function takeToken() {
    const given = new URLSearchParams(location.hash.slice(1)).get('t');
    if (given) {
        history.replaceState(history.state, '', location.pathname + location.search);
        const current = await whoIsSignedIn();
        const other = current && await subjectOf(given);
        if (current === undefined || (current && !other)) {
            return;
        }
        const isOther = current && (current.user_id !== other.user_id || isService(current) !== isService(other));
        if (!isOther || await import('./parts/other-user.js').then(({asksForOther}) => asksForOther(current, other))) {
            await useToken(given).catch(() => null); // refused: the first question asks for another one
        }
    }
}

applyTheme();
await loadTexts();
globalThis.start.arrived();
await takeToken();
customElements.define('cv-app', App);
