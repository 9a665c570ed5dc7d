/* Runs before the modules have come, and asks at once for what the first screen will need, so that no request waits for the
 * one that found out about it: the words, the modules of the screen, and of a video what is known of it and its picture. */
(() => {
    const RETRY_MS = 3000; // before the page is loaded again
    const lists = ['pages', 'states', 'poster'];
    const screens = [ // with the parts that their modules import, also by others
        [/^\/$/, 'search', ['deletions', 'export', 'facets', 'preview', 'saved', ...lists]],
        [/^\/(videos|upload)$/, 'library', ['bulk', 'choice', 'deletions', 'uploads', 'video-bulk', ...lists]],
        [/^\/videos\/[0-9a-f-]{36}$/, 'video', ['player', 'boxes', 'sprites', 'transcript', 'clips', 'deletions', ...lists]],
        [/^\/jobs$/, 'jobs', ['bulk', 'choice', 'operate', ...lists]],
    ];
    const languages = ['en', 'de'];
    const asked = navigator.languages.map((name) => name.slice(0, 2));
    const kept = localStorage.getItem('language');
    const language = languages.includes(kept) ? kept : asked.find((name) => languages.includes(name)) ?? 'en';
    const early = new Map(); // address → promise of the answer
    const isSignedIn = !location.hash.includes('t='); // else the token is to be handed over first

    function hint(rel, href, values = {}) {
        document.head.append(Object.assign(document.createElement('link'), {rel, href, ...values}));
    }

    function ask(address) {
        const answer = fetch(address, {headers: {'X-Cortana': '1'}});
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
        const show = () => document.querySelector('main > *') || document.body.prepend(page);
        picture.addEventListener('load', () => document.body ? show() : document.addEventListener('readystatechange', show, {once: true}));
    }

    addEventListener('error', ({target}) => { // a module did not come: there would be no page
        if (target instanceof HTMLScriptElement) {
            setTimeout(() => location.reload(), RETRY_MS);
        }
    }, {capture: true});
    document.documentElement.lang = language;
    globalThis.early = early;
    const video = /^\/videos\/([0-9a-f-]{36})$/.exec(location.pathname)?.[1];
    if (video && isSignedIn) {
        ask(`/api/v1/videos/${video}`);
        showPicture(`/api/v1/videos/${video}/poster`);
    }
    ask(`/lang/${language}.json`);
    const [, screen, parts] = screens.find(([pattern]) => pattern.test(location.pathname)) ?? [];
    if (screen) {
        const more = {search: [], library: ['live', 'uploads']}[screen] ?? ['live'];
        [`screens/${screen}`, ...parts.map((name) => `parts/${name}`), ...more].forEach((name) => hint('modulepreload', `/${name}.js`));
    }
})();
