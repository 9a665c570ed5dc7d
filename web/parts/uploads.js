/* Uploads as they are shown: files are dropped anywhere, pasted or chosen; a row each, from bytes to "search it". */
import {html, nothing} from '../vendor/lit-html.js';
import {who} from '../api.js';
import {Element} from '../element.js';
import {clock, size, t} from '../text.js';
import {uploads} from '../uploads.js';
import {asks} from './question.js';
import {stageText} from './states.js';

const OVER = ['ready', 'failed', 'duplicate'];

const percent = (item) => Math.floor(100 * item.sent / Math.max(item.size, 1));

class UploadList extends Element {
    mayUpload = false;
    depth = 0; // of elements that a dragged file is over

    connectedCallback() {
        this.redraw = () => this.update();
        uploads.addEventListener('change', this.redraw);
        this.handlers = {
            dragenter: (event) => this.onDrag(event, 1), dragleave: (event) => this.onDrag(event, -1),
            dragover: (event) => this.isOfFiles(event) && event.preventDefault(),
            drop: (event) => this.onDrop(event), paste: (event) => this.take(event.clipboardData?.files),
        };
        Object.entries(this.handlers).forEach(([name, run]) => addEventListener(name, run));
        who().then((me) => {
            this.mayUpload = me.role !== 'viewer' && !!me.user_id;
            this.update();
        }, () => null);
        uploads.watch();
        this.update();
    }

    disconnectedCallback() {
        uploads.removeEventListener('change', this.redraw);
        Object.entries(this.handlers).forEach(([name, run]) => removeEventListener(name, run));
    }

    isOfFiles(event) {
        return this.mayUpload && [...event.dataTransfer?.types ?? []].includes('Files');
    }

    onDrag(event, step) {
        if (this.isOfFiles(event)) {
            this.depth = Math.max(this.depth + step, 0);
            this.update();
        }
    }

    onDrop(event) {
        if (this.isOfFiles(event)) {
            event.preventDefault();
            this.depth = 0;
            this.take(event.dataTransfer.files);
        }
    }

    take(files) {
        if (this.mayUpload && files?.length) {
            uploads.add(files);
        }
        this.update();
    }

    choose() {
        this.querySelector('input[type=file]').click();
    }

    async stop(item) {
        const isOnServer = item.state !== 'sent' && item.sent > 0;
        if (!isOnServer || await asks('upload', {name: item.name, sent: size(item.sent), size: size(item.size)})) {
            uploads.stop(item);
        }
    }

    /** What becomes of it, in words. */
    said(item) {
        const rest = item.rate ? (item.size - item.sent) / item.rate * 1000 : 0;
        const sizes = t('upload.bytes', {sent: size(item.sent), size: size(item.size)});
        switch (item.state) {
        case 'sending':
            return `${sizes}${rest ? `, ${t('upload.rate', {rate: size(item.rate), rest: clock(rest)})}` : ''}`;
        case 'sent':
            return item.job && !OVER.includes(item.status)
                ? stageText({...item.job, status: item.job.state, retry_at: item.job.state === 'retry' ? item.job.scheduled_for : null})
                : t(OVER.includes(item.status) ? `status.${item.status}` : 'upload.sent');
        case 'waiting':
        case 'empty':
            return t(`upload.${item.state}`);
        default:
            return `${t(`upload.${item.state}`)} ${item.problem || sizes}`;
        }
    }

    buttons(item) {
        const button = (key, run) => html`<button @click=${run}>${t(key)}</button>`;
        const goOn = {paused: 'upload.go-on', failed: 'again'}[item.state];
        return html`${item.state === 'sending' || item.state === 'again' ? button('upload.pause', () => uploads.pause(item)) : nothing}
            ${goOn ? button(goOn, () => uploads.goOn(item)) : nothing}
            ${item.state === 'file-needed' ? button('upload.choose-again', () => this.choose()) : nothing}
            ${item.status === 'ready' || item.lines?.length ? html`<a class="button main" href="/?q=${encodeURIComponent(`video:${item.video}`)}">
                <cv-icon name="search"></cv-icon>${t('upload.search')}</a>` : nothing}
            ${item.status === 'duplicate' && item.twin ? html`<a class="button" href="/videos/${item.twin}">${t('upload.twin')}</a>` : nothing}
            <button class="plain" title=${t(item.state === 'sent' ? 'upload.forget' : 'upload.stop')}
                aria-label="${t(item.state === 'sent' ? 'upload.forget' : 'upload.stop')}: ${item.name}"
                @click=${() => this.stop(item)}><cv-icon name="close"></cv-icon></button>`;
    }

    row(item) {
        const isSent = item.state === 'sent';
        const share = isSent ? Math.round((item.job?.progress ?? 0) * 100) : percent(item);
        const name = html`<b dir="auto">${item.name}</b>`;
        return html`<li data-state=${isSent ? item.status || 'sent' : item.state}><span class="name">${
            isSent ? html`<a href="/videos/${item.video}">${name}</a>` : name}
            <small class=${['failed', 'empty'].includes(item.state) || item.status === 'failed' ? 'fault' : 'faint'}>${this.said(item)}</small></span>
            <span class="do">${this.buttons(item)}</span>
            ${item.state === 'empty' || isSent && OVER.includes(item.status) ? nothing : html`<progress class=${isSent ? 'stage-bar' : ''} max="100"
                value=${share} aria-label="${item.name}: ${t('progress')}"></progress>`}
            ${item.lines?.length ? html`<ul class="lines">${item.lines.map((line) => html`<li><a dir="auto"
                href="/videos/${item.video}?t=${(line.t_start / 1000).toFixed(3)}"><time>${clock(line.t_start)}</time> ${line.text}</a></li>`)}</ul>`
                : nothing}</li>`;
    }

    view() {
        if (!this.mayUpload) {
            return nothing;
        }
        return html`<input type="file" multiple accept="video/*,.mkv,.ts,.m2ts,.avi,.flv" class="unseen" tabindex="-1" aria-hidden="true"
                @change=${(event) => {
                    this.take(event.target.files);
                    event.target.value = '';
                }}>
            ${this.depth ? html`<div class="drop"><p><cv-icon name="upload"></cv-icon>${t('upload.drop')}</p></div>` : nothing}
            ${uploads.items.length ? html`<section class="uploads" aria-label=${t('uploads')}><div class="heading">
                <h2>${t('uploads')}</h2>${uploads.items.some((item) => OVER.includes(item.status))
                    ? html`<button class="plain" @click=${() => this.clear()}>${t('upload.clear')}</button>` : nothing}</div>
                <ul>${uploads.items.map((item) => this.row(item))}</ul></section>` : nothing}`;
    }

    clear() {
        uploads.items.filter((item) => OVER.includes(item.status)).forEach((item) => uploads.forget(item));
    }
}
customElements.define('cv-uploads', UploadList);
