/* Runs before the modules have come, and asks at once for what the first screen will need, so that no request waits for the
 * one that found out about it: the words, the modules of the screen, and of a video what is known of it and its picture. */
(() => {
    const RETRY_MS = 3000; // before the page is loaded again
    const STALL_MS = 10000; // in which nothing of the page has come; doubled with each time that it is loaded again
    const ANSWER_MS = 60000; // that an answer of the API may take
    const lists = ['pages', 'states', 'poster'];
    const screens = [ // with the parts that their modules import, also by others
        [/^\/$/, 'search', ['deletions', 'export', 'facets', 'reel', 'result', 'saved', 'unread', ...lists]],
        [/^\/(videos|upload)$/, 'library', ['arrange', 'bulk', 'choice', 'deletions', 'own-fields', 'question', 'uploads', 'video-bulk', 'video-words', ...lists]],
        [/^\/videos\/[0-9a-f-]{36}$/, 'video', ['player', 'in-sight', 'boxes', 'clip-range', 'position', 'sprites', 'transcript', 'chapters', 'clips', 'covers', 'crop', 'deletions', 'share', 'unread', 'own-fields', ...lists]],
        [/^\/jobs$/, 'jobs', ['bulk', 'choice', 'deletions', 'operate', ...lists]],
    ];
    try {
        localStorage.getItem('language');
    } catch { // a page of somebody else has this one in an <iframe>, and the browser keeps nothing for those
        const none = {getItem: () => null, setItem() {}, removeItem() {}};
        Object.defineProperties(globalThis, {localStorage: {value: none}, sessionStorage: {value: none}});
    }
    const languages = ['en', 'de'];
    const asked = navigator.languages.map((name) => name.slice(0, 2));
    const kept = localStorage.getItem('language');
    const language = languages.includes(kept) ? kept : asked.find((name) => languages.includes(name)) ?? 'en';
    const early = new Map(); // address → promise of the answer
    const isSignedIn = !location.hash.includes('t='); // else the token is to be handed over first

    function hint(rel, href, values = {}) {
        document.head.append(Object.assign(document.createElement('link'), {rel, href, ...values}));
    }

    /** What is asked for first of a search: enough hits for a window. @param {string} query @param {Record<string, string>} [narrowing] */
    const firstHits = (query, narrowing = {}) => ({q: query, limit: 20, facets: true, group: 'video', ...narrowing});

    function ask(address) {
        const answer = fetch(address, {headers: {'X-Cortana': '1'}, signal: AbortSignal.timeout(ANSWER_MS)});
        answer.catch(() => null); // who takes it says so
        early.set(address, answer);
    }

    /** A picture where the player will have it, until the player has come. */
    function showPicture(address) {
        const [page, left, stage] = ['page watch with-player early', 'left', 'stage'].map((name) => Object.assign(document.createElement('div'), {className: name}));
        const picture = Object.assign(new Image(), {alt: '', fetchPriority: 'high', src: address});
        stage.append(picture);
        left.append(stage);
        page.append(left);
        const show = () => {
            stage.style.setProperty('--shape', String(picture.naturalWidth / picture.naturalHeight));
            return document.querySelector('main > *') || document.body.prepend(page);
        };
        picture.addEventListener('load', () => document.body ? show() : document.addEventListener('readystatechange', show, {once: true}));
    }

    /**
     * Loads the page again when its parts stop coming: no browser asks again for a module whose request stalls, and there would be
     * no page as long as it does.
     * @returns {() => void} to be called when they are there
     */
    function expectParts() {
        const longest = STALL_MS * 2 ** Number(sessionStorage.getItem('stalls'));
        let came = performance.now();
        const watch = new PerformanceObserver((list) => {
            if (list.getEntries().some(({name}) => /\.(js|css|json)$/.test(name))) {
                came = performance.now();
            }
        });
        watch.observe({type: 'resource'});
        const timer = setInterval(() => {
            if (performance.now() - came > longest) {
                sessionStorage.setItem('stalls', Number(sessionStorage.getItem('stalls')) + 1);
                location.reload();
            }
        }, 1000);
        return () => {
            clearInterval(timer);
            watch.disconnect();
            sessionStorage.removeItem('stalls');
        };
    }

    addEventListener('error', ({target}) => { // without its modules and styles there would be no page
        if (target instanceof HTMLScriptElement || target instanceof HTMLLinkElement && target.rel === 'stylesheet') {
            setTimeout(() => location.reload(), RETRY_MS);
        }
    }, {capture: true});
    document.documentElement.lang = language;
    globalThis.start = {ANSWER_MS, early, expectParts, firstHits, arrived: expectParts()};
    const video = /^\/videos\/([0-9a-f-]{36})$/.exec(location.pathname)?.[1];
    if (video && isSignedIn) {
        ask(`/api/v1/videos/${video}`);
        showPicture(`/api/v1/videos/${video}/poster`);
    }
    const asks = new URLSearchParams(location.search);
    const query = asks.get('q')?.trim() ?? '';
    if (location.pathname === '/' && isSignedIn && !query.includes(':')) { // fields alone are not searched for
        const narrowing = Object.fromEntries(['sort', 'kind', 'lang', 'match', 'video', 'min_confidence'].flatMap((name) => (asks.get(name) ? [[name, asks.get(name)]] : [])));
        ask(query ? `/api/v1/search?${new URLSearchParams(firstHits(query, narrowing))}` : '/api/v1/videos?limit=12');
    }
    ask(`/lang/${language}.json`);
    const [, screen, parts] = screens.find(([pattern]) => pattern.test(location.pathname)) ?? [];
    if (screen) {
        const more = {search: [], library: ['live', 'uploads']}[screen] ?? ['live'];
        [`screens/${screen}`, ...parts.map((name) => `parts/${name}`), ...more].forEach((name) => hint('modulepreload', `/${name}.js`));
    }
})();
