/* Small drawings, on a grid of 24. */
import {html, svg} from '../vendor/lit-html.js';
import {Element} from '../element.js';

const line = (d) => svg`<path d=${d} />`;
const shapes = {
    mark: svg`<rect x="2.5" y="4" width="19" height="16" rx="4"/><path d="M7 10h6M7 14h10"/><circle cx="17" cy="10" r="1.4" class="full"/>`,
    search: svg`<circle cx="11" cy="11" r="6.5"/><path d="m20 20-4.2-4.2"/>`,
    library: svg`<rect x="3" y="4" width="7.5" height="7" rx="1.6"/><rect x="13.5" y="4" width="7.5" height="7" rx="1.6"/><rect x="3" y="14" width="7.5" height="6" rx="1.6"/><rect x="13.5" y="14" width="7.5" height="6" rx="1.6"/>`,
    person: svg`<circle cx="12" cy="8" r="4"/><path d="M4.500 20c.8-4 3.800-6 7.500-6s6.700 2 7.500 6"/>`,
    queues: line('M4 7h16M4 12h11M4 17h6'),
    jobs: svg`<rect x="4" y="4" width="16" height="16" rx="3"/><path d="m8.5 12 2.5 2.5 4.5-5"/>`,
    'theme-auto': svg`<circle cx="12" cy="12" r="8"/><path class="full" d="M12 4a8 8 0 0 1 0 16z"/>`,
    'theme-light': svg`<circle cx="12" cy="12" r="4"/><path d="M12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6 7 7M17 17l1.4 1.4M5.6 18.4 7 17M17 7l1.4-1.4"/>`,
    'theme-dark': line('M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z'),
    play: svg`<path class="full" d="M8 5.5v13l11-6.5z"/>`,
    pause: svg`<path class="full" d="M7 5h3.5v14H7zM13.5 5H17v14h-3.5z"/>`,
    close: line('m6 6 12 12M18 6 6 18'),
    trash: line('M4.5 7h15M9.500 7V4.500h5V7M6.500 7l.8 12.500h9.400L17.500 7M10 11v5M14 11v5'),
    edit: line('M5 19h3.5L19 8.500 15.500 5 5 15.500zM13.500 7l3.500 3.500'),
    star: line('m12 4 2.400 5 5.600.700-4.100 3.800 1.100 5.500L12 16.200 7 19l1.100-5.500L4 9.700 9.600 9z'),
    starred: svg`<path class="full" d="m12 4 2.400 5 5.600.700-4.100 3.800 1.100 5.500L12 16.200 7 19l1.100-5.500L4 9.700 9.600 9z"/>`,
    share: line('M12 15V4M8 8l4-4 4 4M5 12v7h14v-7'),
    link: line('M10 14a4 4 0 0 0 5.7 0l3-3A4 4 0 0 0 13 5.3l-1 1M14 10a4 4 0 0 0-5.7 0l-3 3A4 4 0 0 0 11 18.7l1-1'),
    key: svg`<circle cx="8" cy="15" r="4"/><path d="m11 12 8.500-8.500M15 8l3 3M17.500 5.500l2 2"/>`,
    copy: svg`<rect x="8" y="8" width="12" height="12" rx="2.4"/><path d="M16 8V6a2 2 0 0 0-2-2H6a2 2 0 0 0-2 2v8a2 2 0 0 0 2 2h2"/>`,
    scissors: svg`<circle cx="6" cy="7" r="2.5"/><circle cx="6" cy="17" r="2.5"/><path d="M8.2 8.3 20 16M8.2 15.7 20 8"/>`,
    earlier: line('m14.500 6-6 6 6 6'),
    later: line('m9.500 6 6 6-6 6'),
    crop: line('M7 3v14h14M3 7h14v14'),
    download: line('M12 4v11M7.5 11 12 15.5 16.5 11M5 20h14'),
    upload: line('M12 16V5M7.5 9 12 4.5 16.5 9M5 20h14'),
    volume: line('M4 9.5h3L11.5 6v12L7 14.5H4zM15 9.5a3.5 3.5 0 0 1 0 5M17.5 7a7 7 0 0 1 0 10'),
    muted: line('M4 9.5h3L11.5 6v12L7 14.5H4zM15.5 10l4 4M19.5 10l-4 4'),
    full: line('M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5'),
    picture: svg`<path d="M11 18H5.4A2.4 2.4 0 0 1 3 15.6V7.4A2.4 2.4 0 0 1 5.4 5h13.200A2.4 2.4 0 0 1 21 7.4V10"/><rect x="13.5" y="13" width="8" height="6" rx="1.2" class="full"/>`,
    bell: line('M6.500 16.500V11a5.500 5.500 0 0 1 11 0v5.500l1.500 1.500H5zM10 20.500h4'),
    save: line('M7 4h10v16l-5-4-5 4z'),
    saved: svg`<path class="full" d="M7 4h10v16l-5-4-5 4z"/>`,
    boxes: svg`<rect x="3.5" y="6" width="17" height="5" rx="1"/><rect x="3.5" y="14" width="11" height="4.5" rx="1"/>`,
    more: svg`<circle cx="12" cy="5.5" r="1.6" class="full"/><circle cx="12" cy="12" r="1.6" class="full"/><circle cx="12" cy="18.5" r="1.6" class="full"/>`,
    again: line('M19 12a7 7 0 1 1-2.300-5.200M19.500 4v4h-4'),
    warn: line('M12 4 2.8 19.5h18.4zM12 10v4.5M12 17.2v.3'),
    down: line('M12 5v14M6 13l6 6 6-6'),
    film: svg`<rect x="3" y="5" width="18" height="14" rx="2.5"/><path d="M7.5 5v14M16.5 5v14M3 10h4.5M3 14h4.5M16.5 10H21M16.5 14H21"/>`,
};

class Icon extends Element {
    static observedAttributes = ['name'];

    attributeChangedCallback() {
        this.update();
    }

    view() {
        return html`<svg viewBox="0 0 24 24" aria-hidden="true">${shapes[this.getAttribute('name')]}</svg>`;
    }
}
customElements.define('cv-icon', Icon);
