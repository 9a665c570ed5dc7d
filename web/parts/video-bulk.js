/* One action on the videos that were chosen: how many and which, then the deed. */
import {html} from '../vendor/lit-html.js';
import {ask} from '../api.js';
import {clock, t} from '../text.js';
import {Bulk} from './bulk.js';
import {removeLater} from './deletions.js';
import {titleOf} from './states.js';

const SAMPLE = 5;
const BUSY_MS = 1000; // before the next attempt, when the server says that these are too many at once

class VideoBulk extends Bulk {
    /** @param {'reindex' | 'reprocess' | 'delete'} action @param {any[]} videos */
    async open(action, videos) {
        this.rest = [...videos];
        await super.open(`video.${action}`, videos);
    }

    async run(isDry) {
        if (isDry) {
            return {matched: this.filter.length, sample: this.filter.slice(0, SAMPLE)};
        }
        const matched = this.rest.length;
        try {
            await ask(`/videos/${this.rest[0].id}/${this.action.slice('video.'.length)}`, {method: 'POST'});
        } catch (problem) {
            if (problem.status === 429) {
                await new Promise((done) => setTimeout(done, BUSY_MS));
                return {matched, changed: 0, rest: matched};
            }
            if (problem.status !== 404) {
                throw problem;
            }
            this.rest.shift(); // it was deleted meanwhile
            return {matched, changed: 0, rest: matched - 1};
        }
        this.rest.shift();
        return {matched, changed: 1};
    }

    async start() {
        if (this.action !== 'video.delete') {
            await super.start();
            return;
        }
        this.querySelector('dialog').close();
        this.dispatchEvent(new CustomEvent('cv-changed'));
        await removeLater(this.filter);
    }

    row(video) {
        return html`<span dir="auto">${titleOf(video)}</span> <small class="faint">${video.duration_ms ? clock(video.duration_ms) : t(`status.${video.status}`)}</small>`;
    }
}
customElements.define('cv-video-bulk', VideoBulk);
