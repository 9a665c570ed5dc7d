/* The player: the video, its bar, and keys. hls.js is loaded here alone, and only where the browser needs it. */
import {html, nothing} from '../vendor/lit-html.js';
import {Element} from '../element.js';
import {atTime, clock, momentIn, readClock, t, timeOfDay} from '../text.js';
import {placeRange, rangeOnLine, strip} from './clip-range.js';
import {keepPosition, positionIn} from './position.js';
import {loadSprites, showSprite} from './sprites.js';
import {say} from './toast.js';
import './boxes.js';

const JUMP_S = 10;
const STEP_S = 5;
const VOLUME_STEP = 0.05;
const ROUNDED_MS = 0.5; // a frame's time is rounded to ms; the frame before it must not be shown in its place
const SPEEDS = [0.25, 0.5, 1, 1.5, 2, 4];
const MODES = ['hits', 'all', 'none'];
const KEPT_S = 60; // of what was played, for going back
const KEEP_MS = 5000; // between two notes of the position

/** Where it is, ms: what seek() has asked for, and not what it added to that. @param {HTMLVideoElement} element */
const momentOf = (element) => Math.max(0, element.currentTime * 1000 - ROUNDED_MS);

/** The player over the whole width, and the lines below it; kept for all videos. */
const showTheatre = () => document.documentElement.classList.toggle('theatre', localStorage.getItem('theatre') === '1');
const toTheatre = () => {
    localStorage.setItem('theatre', localStorage.getItem('theatre') === '1' ? '0' : '1');
    showTheatre();
};

/** Fires cv-expired when the files may be read no longer, cv-time (detail: ms) for each frame that is shown, cv-mark (detail: from or to) for the ends of a clip. */
class Player extends Element {
    /** @type {any} */ grant = null;
    /** @type {string | null} */ recordedAt = null; // when its recording began
    poster = ''; // URL of the picture that is shown until there is one of the video itself
    /** @type {any[]} */ lines = [];
    hits = new Map();
    now = 0; // ms
    mode = 'hits';
    isPlaying = false;
    isMuted = localStorage.getItem('muted') === '1';
    problem = '';
    levels = []; // renditions
    cues = []; // pictures over the seek bar
    covers = []; // lines without a text, whose boxes the clip covers
    range = null; // {from, to}, ms, of the clip that is to be made
    volume = Number(localStorage.getItem('volume') ?? 1);
    loop = null; // {from, to}, ms, that is played again and again
    keptAt = 0;

    connectedCallback() {
        this.keys = (event) => this.onKey(event);
        document.addEventListener('keydown', this.keys);
        showTheatre();
        this.update();
    }

    disconnectedCallback() {
        document.removeEventListener('keydown', this.keys);
        this.hls?.destroy();
    }

    get video() {
        return this.querySelector('video');
    }

    /** Where what may be seen of the video begins, ms: all of it may, but for who has a link to a part. */
    get first() {
        return this.file?.from_ms ?? 0;
    }

    get last() {
        return this.file?.to_ms ?? this.file?.duration_ms ?? 0;
    }

    /** @param {any} video as the API has it @param {any} grant where its files are @param {number} startMs */
    async load(video, grant, startMs) {
        this.grant = grant;
        this.file = video;
        startMs ||= positionIn(this.file);
        this.now = startMs;
        if (grant.thumbnails) {
            loadSprites(grant.base_url + grant.thumbnails).then((cues) => {
                this.cues = cues;
            });
        }
        this.update();
        await Promise.resolve();
        const url = grant.base_url + grant.playlist;
        const element = this.video;
        element.muted = this.isMuted;
        element.volume = this.volume;
        if (!globalThis.MediaSource && element.canPlayType('application/vnd.apple.mpegurl')) {
            element.src = `${url}#t=${startMs / 1000}`;
        } else {
            await import('../vendor/hls.min.js');
            this.hls?.destroy();
            this.hls = new globalThis.Hls({enableWorker: false, startPosition: (startMs + ROUNDED_MS) / 1000,
                backBufferLength: KEPT_S, capLevelToPlayerSize: true});
            this.hls.on('hlsError', (_, fault) => {
                if (fault.fatal && Date.parse(this.grant.expires) < Date.now()) {
                    this.dispatchEvent(new CustomEvent('cv-expired'));
                } else if (fault.fatal) {
                    this.problem = t('player.failed', {what: fault.details});
                    this.update();
                }
            });
            this.hls.on('hlsManifestParsed', (_, {levels}) => {
                this.levels = levels.length > 1 ? levels : [];
                this.update();
            });
            this.hls.loadSource(url);
            this.hls.attachMedia(element);
        }
        this.watchFrames();
    }

    keepPosition(ms) {
        if (this.isPlaying && Math.abs(ms - this.keptAt) > KEEP_MS) {
            this.keptAt = ms;
            keepPosition(this.file.id, ms);
        }
    }

    /** Plays from here to there, again and again. @param {number} from ms @param {number} to ms */
    preview(from, to) {
        this.loop = this.loop ? null : {from, to};
        if (this.loop) {
            this.seek(from);
            this.video.play().catch(() => null);
        } else {
            this.video.pause();
        }
    }

    overSeek(event) {
        const edge = event.target.getBoundingClientRect();
        const share = Math.min(Math.max((event.clientX - edge.left) / edge.width, 0), 1);
        const ms = this.first + share * (this.last - this.first);
        showSprite(this.querySelector('.sprite'), this.cues, ms, event.clientX - edge.left, edge.width);
        this.querySelector('.sprite span').textContent = clock(ms);
    }

    watchFrames() {
        const element = this.video;
        const seen = (_, frame) => { // Firefox says the time that was asked for of a sought frame, and on a busy machine that of a frame to come
            const most = momentOf(element) + 1000 / (this.file?.fps || 30);
            this.show(frame.mediaTime === element.currentTime ? momentOf(element) : Math.min(frame.mediaTime * 1000, most));
            if (this.isConnected) {
                element.requestVideoFrameCallback?.(seen);
            }
        };
        element.requestVideoFrameCallback?.(seen);
        element.addEventListener('seeking', () => this.show(momentOf(element)));
    }

    show(ms) {
        this.now = ms;
        if (this.loop && ms >= this.loop.to && !this.video.seeking) {
            this.video.currentTime = this.loop.from / 1000;
        }
        if (this.file.to_ms && ms >= this.last && !this.video.paused) {
            this.video.pause();
        }
        this.keepPosition(ms);
        this.querySelectorAll('cv-boxes').forEach((boxes) => boxes.at(ms));
        const seek = this.querySelector('.seek');
        if (seek) {
            seek.value = String(Math.round(ms));
            seek.setAttribute('aria-valuetext', clock(ms));
            this.showClock();
        }
        this.dispatchEvent(new CustomEvent('cv-time', {detail: ms}));
    }

    showClock() {
        const place = this.querySelector('button.clock');
        if (place) {
            place.textContent = `${clock(this.now)} / ${clock(this.last)}`;
        }
        const ofDay = this.querySelector('time.clock');
        if (ofDay && this.recordedAt) {
            ofDay.textContent = timeOfDay(atTime(this.recordedAt, this.now));
        }
    }

    /** Lets one type the time to go to. */
    async askTime() {
        this.isAsking = true;
        this.update();
        await Promise.resolve();
        this.querySelector('.clock input').select();
    }

    toTime(event) {
        event.preventDefault();
        const ms = readClock(event.target.elements.time.value);
        this.isAsking = false;
        this.update();
        if (ms !== null) {
            this.seek(ms);
        }
        this.querySelector('.seek').focus();
    }

    clock() {
        return this.isAsking ? html`<form class="clock" @submit=${(event) => this.toTime(event)}><input name="time" inputmode="decimal" autocomplete="off"
                aria-label=${t('player.goto')} .value=${clock(this.now, 1)} @blur=${() => {
                    this.isAsking = false;
                    this.update();
                }} @keydown=${(event) => event.key === 'Escape' && event.target.blur()}></form>`
            : html`<button class="plain clock" title=${t('player.goto')} aria-description=${t('player.goto')} @click=${() => this.askTime()}></button>`;
    }

    /** The picture alone, above other windows, and back. */
    toPicture() {
        if (document.pictureInPictureElement) {
            document.exitPictureInPicture();
        } else {
            this.video.requestPictureInPicture().catch((fault) => say(fault.message, 'bad'));
        }
    }

    /** The middle of the last picture, ms: at the very end a browser may go on showing the picture that was there before. */
    get lastFrame() {
        const own = this.video?.duration * 1000; // what there is to play; NaN until it is known
        return Math.max(Math.min(this.last, own || Infinity) - 500 / (this.file?.fps || 30), this.first);
    }

    /** @param {number} ms */
    seek(ms) {
        const most = this.lastFrame;
        const wanted = Math.min(Math.max(ms, this.first), most);
        if (this.video) {
            this.video.currentTime = (wanted + ROUNDED_MS) / 1000;
        }
        this.show(wanted);
    }

    playOrPause() {
        if (this.video.paused) {
            if (this.file.to_ms && this.now >= this.lastFrame) {
                this.seek(this.first);
            }
            this.video.play().catch(() => null);
        } else {
            this.video.pause();
        }
    }

    /** Says that a clip is to begin or end at this moment. @param {'from' | 'to'} end */
    mark(end) {
        this.dispatchEvent(new CustomEvent('cv-mark', {detail: end}));
    }

    nextHit(direction) {
        const starts = this.lines.filter((line) => this.hits.has(line.id)).map((line) => line.t_start);
        const next = direction > 0 ? starts.find((start) => start > this.now + 1)
            : starts.findLast((start) => start < this.now - 500);
        if (next !== undefined) {
            this.seek(next);
        }
    }

    mute() {
        this.isMuted = this.video.muted = !this.video.muted;
        localStorage.setItem('muted', this.isMuted ? '1' : '0');
        this.update();
    }

    /** @param {number} volume from 0 to 1 */
    setVolume(volume) {
        this.volume = this.video.volume = Math.min(Math.max(volume, 0), 1);
        this.isMuted = this.video.muted = this.volume === 0;
        localStorage.setItem('volume', String(this.volume));
        this.update();
    }

    /** @param {number} step faster or slower, along the speeds that can be chosen */
    changeSpeed(step) {
        const at = SPEEDS.indexOf(this.video.playbackRate);
        this.video.playbackRate = SPEEDS[Math.min(Math.max(at + step, 0), SPEEDS.length - 1)];
        this.update();
    }

    /** The clip that is to be made: its ends on the line of time, and what it covers. @param {{range?: any, covers?: any[]}} planned */
    plan(planned) {
        Object.assign(this, planned);
        this.update();
    }

    nextMode() {
        this.mode = MODES[(MODES.indexOf(this.mode) + 1) % MODES.length];
        this.update();
    }

    toFullscreen() {
        if (document.fullscreenElement) {
            document.exitFullscreen();
        } else {
            this.requestFullscreen?.();
        }
    }

    onKey(event) {
        const isTyping = event.target.closest('input:not([type=range]), textarea, select, dialog');
        const isPressing = event.key === ' ' && event.target.closest('button, a');
        if (isTyping || isPressing || event.ctrlKey || event.metaKey || event.altKey || !this.grant) {
            return;
        }
        const frame = 1000 / (this.file.fps || 30);
        const length = this.last - this.first;
        const actions = {
            ' ': () => this.playOrPause(), k: () => this.playOrPause(), j: () => this.seek(this.now - JUMP_S * 1000),
            l: () => this.seek(this.now + JUMP_S * 1000), ArrowLeft: () => this.seek(this.now - STEP_S * 1000),
            ArrowRight: () => this.seek(this.now + STEP_S * 1000), ',': () => this.seek(this.now - frame),
            '.': () => this.seek(this.now + frame), n: () => this.nextHit(1), p: () => this.nextHit(-1),
            '[': () => this.mark('from'), ']': () => this.mark('to'), b: () => this.nextMode(), m: () => this.mute(), f: () => this.toFullscreen(), t: () => toTheatre(), g: () => this.askTime(), i: () => document.pictureInPictureEnabled && this.toPicture(),
            c: () => this.dispatchEvent(new CustomEvent('cv-clip')), G: () => this.dispatchEvent(new CustomEvent('cv-clip', {detail: 'gif'})), ArrowUp: () => this.setVolume(this.volume + VOLUME_STEP),
            ArrowDown: () => this.setVolume(this.volume - VOLUME_STEP), '<': () => this.changeSpeed(-1), '>': () => this.changeSpeed(1),
            Home: () => this.seek(this.first), End: () => this.seek(this.last),
            ...Object.fromEntries(Array.from({length: 10}, (_, n) => [String(n), () => this.seek(this.first + length * n / 10)])),
        };
        if (actions[event.key]) {
            event.preventDefault();
            actions[event.key]();
        }
    }

    drawn() {
        if (this.isSeen || this.problem) {
            document.querySelector('.early')?.remove(); // of start.js
        }
        const [width, height] = (this.file?.resolution ?? '').split('x').map(Number);
        if (height) {
            this.style.setProperty('--shape', String(width / height));
        }
        placeRange(this);
        if (this.grant) {
            this.showClock();
            this.querySelector('cv-boxes.text').show(this.file, this.lines, this.hits, this.mode);
            this.querySelector('cv-boxes.covers').show(this.file, this.covers, this.hits, 'all');
        }
    }

    view() {
        if (!this.grant && !this.poster) {
            return nothing;
        }
        const button = (icon, key, run, isPressed = nothing) => html`<button class="plain" title=${t(key)}
            aria-label=${t(key)} aria-pressed=${isPressed} @click=${run}><cv-icon name=${icon}></cv-icon></button>`;
        return html`<div class="stage">
                <video playsinline preload="auto" aria-label=${(this.file?.title || this.file?.name) ?? nothing} poster=${(!this.isSeen && this.poster) || nothing} class=${this.isSeen ? 'seen' : ''}
                    @loadeddata=${() => this.setSeen()}
                    @click=${() => this.grant && this.playOrPause()} @play=${() => this.setPlaying(true)} @pause=${() => this.setPlaying(false)}
                    @timeupdate=${(event) => this.show(momentOf(event.target))}></video>
                <cv-boxes class="text" aria-hidden="true"></cv-boxes><cv-boxes class="covers" aria-hidden="true"></cv-boxes>
                ${this.problem ? html`<p class="broken" role="alert">${this.problem}</p>` : nothing}</div>
            ${!this.grant ? html`<div class="bar awaited"></div>` : html`<div class="line-of-time">${strip(this)}${rangeOnLine(this)}<input class="seek" type="range" min=${this.first} step="1"
                max=${Math.round(this.last)} aria-label=${t('player.seek')}
                @pointermove=${(event) => this.overSeek(event)} @pointerleave=${() => {
                    this.querySelector('.sprite').hidden = true;
                }}
                @input=${(event) => this.seek(Number(event.target.value))}><div class="sprite" aria-hidden="true" hidden><div></div><span></span></div></div>
            <div class="bar">
                ${button(this.isPlaying ? 'pause' : 'play', this.isPlaying ? 'player.pause' : 'player.play', () => this.playOrPause())}
                ${this.clock()}<time class="clock" ?hidden=${!this.recordedAt} @pointerenter=${({target}) => {
                    target.title = this.recordedAt ? momentIn(atTime(this.recordedAt, this.now).toISOString(), null) : '';
                }}></time><span class="gap"></span>
                <button class="plain words" title=${t('keys.boxes')} @click=${() => this.nextMode()}><cv-icon name="boxes"></cv-icon>
                    ${t(`boxes.${this.mode}`)}</button>
                <select aria-label=${t('player.speed')} @change=${(event) => {
                    this.video.playbackRate = Number(event.target.value);
                }}>${SPEEDS.map((speed) => html`<option value=${speed} ?selected=${speed === (this.video?.playbackRate ?? 1)}>${speed}×</option>`)}</select>
                ${this.levels.length ? html`<select aria-label=${t('player.level')} @change=${(event) => {
                    this.hls.nextLevel = Number(event.target.value);
                }}><option value="-1">${t('player.level.auto')}</option>${this.levels.map((level, n) => html`<option value=${n}>${level.height}p</option>`)}</select>` : nothing}
                ${button(this.isMuted ? 'muted' : 'volume', 'player.mute', () => this.mute(), this.isMuted)}
                <input class="volume" type="range" min="0" max="1" step="0.05" aria-label=${t('player.volume')} .value=${String(this.isMuted ? 0 : this.volume)}
                    @input=${(event) => this.setVolume(Number(event.target.value))}>
                ${document.pictureInPictureEnabled ? button('picture', 'player.picture', () => this.toPicture()) : nothing}
                ${button('full', 'player.full', () => this.toFullscreen())}</div>`}`;
    }

    /** There is a picture of the video itself: the boxes belong to that one. */
    setSeen() {
        this.isSeen = true;
        this.update();
    }

    setPlaying(isPlaying) {
        this.isPlaying = isPlaying;
        this.update();
    }
}
customElements.define('cv-player', Player);
