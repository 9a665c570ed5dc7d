/* A video: the player, what was to be read in it and when, names and links. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, who} from '../api.js';
import {Element} from '../element.js';
import {listen} from '../live.js';
import {keepInSight} from '../parts/in-sight.js';
import {failure, menuButton, OPEN, skeleton, stageText, titleOf} from '../parts/states.js';
import {wordsOf} from '../parts/own-fields.js';
import {unreadLines} from '../parts/unread.js';
import {searchUrl} from '../query.js';
import {queried} from '../router.js';
import {clock, count, day, hasText, moment, size, t} from '../text.js';
import '../parts/chapters.js';
import '../parts/clips.js';
import '../parts/player.js';
import '../parts/transcript.js';

const HITS = 100; // of the search that led here
const ENTITIES = 200;
const FORMATS = ['srt', 'vtt', 'ass', 'csv', 'txt', 'md', 'json', 'jsonl']; // of the lines, as files
const PLACES = 20; // videos of the list of where else a name is seen
const MARK_MS = 200; // between two looks for the line that is current

class VideoScreen extends Element {
    tab = 'text';
    markedAt = 0;

    connectedCallback() {
        this.id_ = this.dataset.id;
        this.live = listen([], (kind, data) => this.heard(kind, data));
        who().then((me) => {
            this.mayChange = me.role !== 'viewer';
            this.update();
        }, () => null);
        this.changed = ({detail}) => this.put(detail);
        addEventListener('cv-video', this.changed);
        this.start();
    }

    disconnectedCallback() {
        removeEventListener('cv-video', this.changed);
        document.querySelector('.early')?.remove();
        this.letGo?.();
        this.live.stop();
    }

    /** While it is being read: its stages go on, and in the end there is a player and there are lines. */
    heard(kind, data) {
        if (kind === 'reset') {
            this.loadOther();
        } else if (kind === 'video' && this.video && data.status !== this.video.status) {
            this.stageEnded();
        } else if (kind === 'job') {
            const stage = {job_id: data.id, job_type: data.job_type, status: data.state, progress: data.progress,
                error_message: data.error?.message, message: data.message, retry_at: data.state === 'retry' ? data.scheduled_for : null};
            const isKnown = this.stages?.some((one) => one.job_id === data.id);
            this.stages = isKnown ? this.stages.map((one) => one.job_id === data.id ? {...one, ...stage} : one)
                : [...this.stages ?? [], stage];
            if (['subtitles', 'transcribe'].includes(data.job_type) && data.state === 'done') {
                this.transcript?.load(this.id_).then(() => this.showLines());
            }
            this.watch();
            this.update();
            if (!OPEN.includes(data.state) && this.video && this.video.status !== 'ready') {
                this.stageEnded();
            }
        }
    }

    /** Text may be there before the video can be played, or the other way round. */
    async stageEnded() {
        this.loadPlayer();
        if (!this.transcript?.lines?.length) {
            await this.transcript?.load(this.id_);
            this.showLines();
        }
        this.video = await ask(`/videos/${this.id_}`).catch(() => this.video);
        this.update();
    }

    watch() {
        const running = (this.stages ?? []).filter((stage) => stage.status === 'processing');
        this.live.topics([`video:${this.id_}`, ...running.map((stage) => `job:${stage.job_id}`)]);
    }

    onAddress(isRepeated = false) {
        if (isRepeated) {
            this.start();
        } else {
            this.seek(this.asked());
        }
    }

    /** The moment in the address, ms. */
    asked() {
        const at = Number(queried('t'));
        return Number.isFinite(at) && at > 0 ? Math.round(at * 1000) : 0;
    }

    async start() {
        this.problem = null;
        this.update();
        try {
            const grant = ask(`/videos/${this.id_}/grant`, {method: 'POST'}).catch(() => null);
            this.video = await ask(`/videos/${this.id_}`);
            this.grant = grant; // most videos can be played: it need not wait
            this.tab = this.video.status === 'failed' ? 'work' : this.tab;
            this.mayHavePlayer = !!this.video.poster_url; // its place is kept, so that nothing jumps
            document.title = `${titleOf(this.video)} · cortana`;
        } catch (problem) {
            this.problem = problem;
            this.update();
            return;
        }
        this.update();
        await Promise.resolve();
        if (!this.isConnected) {
            return; // the reader has gone to another screen
        }
        this.transcript = this.querySelector('cv-transcript');
        this.player = this.querySelector('cv-player');
        this.loadPlayer(this.grant);
        this.loadOther();
        await Promise.all([this.transcript.load(this.id_), this.findHits()]);
        this.transcript.hits = this.player.hits = this.hits;
        this.player.mode = this.hits.size ? 'hits' : 'all';
        this.showLines();
        this.transcript.update();
        if (this.asked()) {
            this.mark(this.asked());
        }
    }

    /** The lines have come: to the boxes and the parts. */
    showLines() {
        const lines = this.transcript?.lines ?? [];
        this.player.lines = lines;
        this.player.update();
        this.querySelector('cv-chapters').show(lines);
    }

    async loadPlayer(asked = ask(`/videos/${this.id_}/grant`, {method: 'POST'}).catch(() => null)) {
        const grant = await asked;
        this.mayHavePlayer = !!grant?.playlist;
        this.update();
        if (grant?.playlist && this.isConnected && !this.hasPlayer) {
            this.hasPlayer = true;
            this.update();
            await Promise.resolve();
            this.clips = this.querySelector('cv-clips');
            this.clips.load(this.id_);
            const isLoaded = this.player.load(this.video, grant, this.asked());
            await Promise.resolve();
            this.letGo = keepInSight(this.player, this.querySelector('.right'));
            await isLoaded;
        }
    }

    async loadOther() {
        const none = {items: []};
        const entities = ask(`/videos/${this.id_}/entities`, {query: {limit: ENTITIES}}).catch(() => none);
        const stages = ask(`/videos/${this.id_}/stages`).catch(() => none);
        this.entities = (await entities).items;
        this.stages = (await stages).items;
        this.watch();
        this.update();
        this.alike = (await ask(`/videos/${this.id_}/alike`).catch(() => none)).items;
        this.update();
    }

    async findHits() {
        const query = queried('q');
        const found = query && await ask('/search', {query: {q: query, video: this.id_, limit: HITS}}).catch(() => null);
        this.hits = new Map((found?.items ?? []).flatMap((hit) => (hit.continued_by
            ? [hit.segment_id, ...hit.continued_by].map((id) => [id, []]) // a message, which the snippet has as one
            : [[hit.segment_id, hit.snippet]])));
    }

    drawn() {
        if (this.problem || (this.video && !this.mayHavePlayer)) {
            document.querySelector('.early')?.remove(); // of start.js
        }
    }

    seek(ms) {
        if (this.hasPlayer) {
            this.player.seek(ms);
        }
        this.mark(ms);
    }

    /** Shows in the lists what is to be seen now. */
    mark(ms) {
        this.markedAt = ms;
        this.transcript?.at(ms);
        this.querySelector('cv-chapters')?.at(ms);
    }

    onTime(ms) {
        if (Math.abs(ms - this.markedAt) > MARK_MS) {
            this.mark(ms);
        }
    }

    /** What is done with a video that is not ready. */
    reading() {
        const stage = ['new', 'processing'].includes(this.video.status) &&
            (this.stages?.find((one) => one.status === 'processing') ?? this.stages?.findLast((one) => one.status !== 'done'));
        return stage ? html`<p class="reading"><a href="/jobs/${stage.job_id}">${stageText(stage)}</a>
            <progress max="1" value=${stage.progress} aria-label=${t('progress')}></progress></p>` : nothing;
    }

    /** In place of the player: why there is none, and what can be done. */
    failed() {
        const {failure, status} = this.video;
        if (status !== 'failed') {
            return nothing;
        }
        const key = `failure.of.${failure?.type}`;
        return html`<div class="error-box" role="alert"><h2>${t(hasText(key) ? key : 'failure.of')}</h2>
            <p dir="auto">${failure?.message ?? t('failure.of.text')}</p><p class="faint">${t(hasText(key) ? `${key}.do` : 'failure.of.do')}</p>
            <p class="actions">${this.mayChange ? html`<button class="main" @click=${() => this.doTo('reprocess')}>${t('video.reprocess')}</button>
                <button @click=${() => this.doTo('delete')}>${t('video.delete')}</button>` : nothing}
                <button class="plain" @click=${() => {
                    this.tab = 'work';
                    this.update();
                }}>${t('failure.details')}</button></p></div>`;
    }

    /** What people say about it. */
    words() {
        const {collections, description, recorded_at: recordedAt, recorded_from: from, tags} = this.video;
        return html`${description ? html`<p dir="auto">${description}</p>` : nothing}
            ${tags.length || collections.length || recordedAt ? html`<p class="chips">${tags.map((tag) => html`<a class="chip" dir="auto"
                href="/videos?${new URLSearchParams({tag})}">${tag}</a>`)}${collections.map((one) => html`<a class="chip" dir="auto"
                href="/videos?collection=${one.id}"><cv-icon name="library"></cv-icon>${one.name}</a>`)}${recordedAt ? html`<span
                class="faint" title="${moment(recordedAt)} · ${t(`recorded.${from}`)}">${t('words.recorded')} ${day(recordedAt)}</span>` : nothing}</p>` : nothing}`;
    }

    /** Fields of its tenant's own. */
    ownFields() {
        const all = Object.entries(this.video.fields ?? {}).map(([name, value]) => [name, wordsOf(value)]);
        return all.length ? html`<dl class="facts-list">${all.map(([name, value]) => html`<dt dir="auto">${name}</dt><dd dir="auto"><a
            href=${searchUrl(`field:"${name}=${value}"`)}>${value}</a></dd>`)}</dl>` : nothing;
    }

    /** Other recordings of the same thing. */
    alsoIn() {
        return this.alike?.length ? html`<nav class="where" aria-label=${t('alike')}><h2>${t('alike')}</h2>${this.alike.map((one) => html`<a
            href="/videos/${one.video.id}"><span dir="auto">${one.video.title || t('untitled')}</span><span
            class="faint">${t('alike.share', {percent: Math.round(one.share * 100)})} · ${one.video.duration_ms ? `${clock(one.video.duration_ms)} · ` : ''}${day(one.video.created_at)}</span></a>`)}
            <a href=${searchUrl(`like:${this.id_}`)}>${t('alike.search')}</a></nav>` : nothing;
    }

    /** Somebody has changed it here. */
    put(video) {
        if (video.id === this.id_) {
            this.video = {...this.video, ...video};
            document.title = `${titleOf(this.video)} · cortana`;
            this.update();
        }
    }

    /** One of what may be done to it. @param {string} name */
    async doTo(name) {
        (await import('../parts/video-menu.js')).doTo(name, this.video, this.now);
    }

    /** The moment that is shown, ms. */
    get now() {
        return this.hasPlayer ? this.player.now : Math.max(this.transcript?.now ?? 0, 0);
    }

    /** Asks in which other videos a name or a link is seen; the same once more closes the list. */
    async lookWhere(entity) {
        this.where = this.where?.entity === entity ? null : {entity, items: null};
        this.update();
        if (this.where) {
            const query = {kind: entity.kind, value: entity.normalized_value, limit: PLACES};
            const {items} = await ask('/entities/places', {query}).catch(() => ({items: []}));
            this.where = this.where?.entity === entity ? {entity, items: items.filter((one) => one.video_id !== this.id_)} : this.where;
            this.update();
        }
    }

    places() {
        const {entity, items} = this.where;
        return html`<div class="where" role="status"><h3 dir="auto">${t('where.of', {value: entity.value})}</h3>
            ${!items ? t('loading') : !items.length ? t('where.none') : items.map((one) => html`<a
                href="/videos/${one.video_id}?t=${(one.first.t_start / 1000).toFixed(3)}&q=${encodeURIComponent(`"${entity.value}"`)}">
                <span dir="auto">${one.video_title || t('untitled')}</span><span class="faint">${t('hits', {n: one.count})} · ${day(one.created_at)}</span></a>`)}</div>`;
    }

    names() {
        const kinds = Map.groupBy(this.entities ?? [], (entity) => entity.kind);
        if (!kinds.size) {
            return html`<p class="faint">${t('entities.none')}</p>`;
        }
        return [...kinds].map(([kind, all]) => html`<section><h2>${t(`kind.${kind}`)}</h2><ul class="names">${
            all.map((entity) => html`<li><button class="chip" @click=${() => this.seek(entity.places[0]?.t_start ?? 0)}
                dir="auto">${entity.value} <small>${count(entity.count)}</small></button><a
                href=${searchUrl(`"${entity.value}"`)} title=${t('entities.everywhere')}
                aria-label="${t('entities.everywhere')}: ${entity.value}"><cv-icon name="search"></cv-icon></a><button class="plain"
                aria-expanded=${this.where?.entity === entity} aria-label=${t('where.of', {value: entity.value})} title=${t('where')}
                @click=${() => this.lookWhere(entity)}><cv-icon name="film"></cv-icon></button></li>`)}</ul>
            ${this.where?.entity.kind === kind ? this.places() : nothing}</section>`);
    }

    work() {
        return html`${this.stages?.length ? html`<ol class="stages">${this.stages.map((stage) => html`<li><a href="/jobs/${stage.job_id}">
            <span class="badge ${stage.status}">${t(`state.${stage.status}`)}</span> ${stageText(stage)}</a>
            ${stage.error_message ? html`<p class="fault">${stage.error_message}</p>`
                : stage.status === 'canceled' && stage.message ? html`<p class="faint">${stage.message}</p>` : nothing}</li>`)}</ol>` : nothing}
            <h2>${t('video.save')}</h2><p class="actions">${FORMATS.map((format) => html`<a class="button"
                href="/api/v1/videos/${this.id_}/export?format=${format}" download>${format}</a>`)}${this.mayChange ? html`<button
                @click=${() => this.download()}><cv-icon name="download"></cv-icon>${t('video.download')}</button>` : nothing}</p>
            ${this.mayChange ? html`<h2>${t('video.again')}</h2><p class="actions">
                <button @click=${() => this.doTo('reindex')}>${t('video.reindex')}</button>
                <button @click=${() => this.doTo('reprocess')}>${t('video.reprocess')}</button>
                <button @click=${() => this.doTo('delete')}>${t('video.delete')}</button></p>` : nothing}
            <dl class="facts-list"><dt>${t('video.file')}</dt><dd>${this.video.name ?? '–'}, ${size(this.video.size)}</dd>
            <dt>SHA-256</dt><dd><code>${this.video.sha256 ?? '–'}</code></dd></dl>`;
    }

    tabs() {
        const choose = (name) => {
            this.tab = name;
            this.update();
        };
        return html`<div class="tabs" role="tablist" aria-label=${t('video.about')}
            @keydown=${(event) => this.onTabKey(event, choose)}>${['text', 'names', 'work'].map((name) => html`<button
            role="tab" id="tab-${name}" aria-controls="panel" aria-selected=${this.tab === name}
            tabindex=${this.tab === name ? 0 : -1} @click=${() => choose(name)}>${t(`video.${name}`)}</button>`)}</div>`;
    }

    onTabKey(event, choose) {
        const names = ['text', 'names', 'work'];
        const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
        if (step) {
            event.preventDefault();
            event.stopPropagation();
            const next = names[(names.indexOf(this.tab) + step + names.length) % names.length];
            choose(next);
            this.querySelector(`#tab-${next}`).focus();
        }
    }

    view() {
        const {video, problem} = this;
        if (problem) {
            return html`<div class="page">${failure(problem, () => this.start(), true)}</div>`;
        }
        if (!video) {
            return html`<div class="page">${skeleton('row', 4)}</div>`;
        }
        return html`<div class="page watch ${this.mayHavePlayer ? 'with-player' : ''}"><div class="left">
            <cv-player .poster=${video.poster_url ?? ''} .recordedAt=${video.recorded_at} @cv-time=${(event) => this.onTime(event.detail)}
                @cv-mark=${(event) => this.clips?.mark(event.detail, this.player.now)} @cv-clip=${({detail}) => this.clips?.toggle(this.player.now, detail ?? undefined)}
                @cv-drag=${({detail}) => this.clips?.mark(detail.end, detail.ms)}></cv-player>
            <div class="heading"><h1 dir="auto">${titleOf(video)}</h1><p class="actions">
                <button class="plain" aria-pressed=${video.favourite} title=${t('video.favourite')} aria-label=${t('video.favourite')}
                    @click=${() => this.doTo('favourite')}><cv-icon name=${video.favourite ? 'starred' : 'star'}></cv-icon></button>
                ${this.mayChange ? html`<button @click=${() => this.doTo('share')}><cv-icon name="share"></cv-icon>${t('share')}</button>` : nothing}
                <button @click=${() => this.doTo('link')}><cv-icon name="link"></cv-icon>${t('video.link')}</button>
                ${menuButton(video, () => this.now)}</p></div>
            ${this.hasPlayer ? html`<cv-clips .end=${video.duration_ms ?? 0} .resolution=${video.resolution ?? ''} .stage=${() => this.player.querySelector('.stage')} @cv-preview=${({detail}) => this.player.preview(detail.from, detail.to)}
                @cv-clip=${() => this.clips.toggle(this.player.now)} @cv-range=${({detail}) => this.player.plan({range: detail, ...!detail && {covers: []}})} @cv-covers=${({detail}) => this.player.plan({covers: detail})}></cv-clips>` : nothing}
            ${this.failed()}${this.reading()}
            <cv-chapters @cv-seek=${(event) => this.seek(event.detail)}></cv-chapters>
            <p class="faint facts">${video.status === 'ready' ? nothing
                : html`<span class="badge ${video.status}">${t(`status.${video.status}`)}</span>`}
                ${video.duration_ms ? html`<span>${clock(video.duration_ms)}</span>` : nothing}
                ${video.resolution ? html`<span>${video.resolution}</span>` : nothing}
                ${video.size ? html`<span>${size(video.size)}</span>` : nothing}<span>${moment(video.created_at)}</span></p>
            ${this.words()}${this.ownFields()}
            ${video.truncated ? html`<p class="faint">${t('video.truncated')}</p>` : nothing}
            ${unreadLines(video.unread)}${this.alsoIn()}</div>
            <div class="right">${this.tabs()}<div id="panel" role="tabpanel" aria-labelledby="tab-${this.tab}">
                <cv-transcript .recordedAt=${this.video.recorded_at} ?hidden=${this.tab !== 'text'} @cv-seek=${(event) => this.seek(event.detail)}></cv-transcript>
                ${this.tab === 'names' ? this.names() : this.tab === 'work' ? this.work() : nothing}</div></div></div>`;
    }
}
customElements.define('screen-video', VideoScreen);
