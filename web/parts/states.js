/* What is shown in place of content: that it is awaited, that there is none, that it failed; and a video's card. */
import {html, nothing} from '../vendor/lit-html.js';
import {ago, clock, hasText, t} from '../text.js';
import './poster.js';

/** States in which a job is not over. */
export const OPEN = ['queued', 'processing', 'retry', 'stopping', 'lost'];

/** What jobs of a type do, in the reader's language. @param {string} type */
export const typeName = (type) => (hasText(`stage.${type}`) ? t(`stage.${type}`) : type);

/** What a job does, and to which video. @param {any} job */
export const jobName = (job) => (job.video ? t('job.of', {name: typeName(job.job_type), video: titleOf(job.video)}) : typeName(job.job_type));

/** What a workflow does, in the reader's language. @param {string} name */
export const workflowName = (name) => (hasText(`workflow.of.${name}`) ? t(`workflow.of.${name}`) : name);

/**
 * A row's link, by the picture and the title of its video. @param {string} url @param {any} video null: there is none
 * @param {string} what happens to it, or is it
 */
export const videoLink = (url, video, what) => html`<a class="of-video" href=${url}>${video ? html`<cv-poster
    data-video=${video.id} data-url=${video.poster_url ?? ''}></cv-poster><span><span dir="auto">${titleOf(video)}</span><small>${what}</small></span>` : what}</a>`;

/** Grey shapes of what is awaited. @param {string} kind "card", "row" @param {number} number */
export const skeleton = (kind, number) => html`<div class="skeletons ${kind}s" aria-hidden="true">
    ${Array.from({length: number}, () => html`<div class="skeleton ${kind}"></div>`)}</div>
    <p class="unseen">${t('loading')}</p>`; // the line of progress says it aloud

/**
 * A refusal, with a way on. @param {import('../api.js').Problem} problem @param {() => void} again
 * @param {boolean} [isWhole] there is nothing else on the screen
 */
export const failure = (problem, again, isWhole = false) => html`<div class="state failed" role="alert" data-state="failed">
    <cv-icon name="warn"></cv-icon>${isWhole ? html`<h1>${problem.title}</h1>` : html`<h2>${problem.title ?? t('problem')}</h2>`}<p>${problem.text ?? problem.message}</p>
    ${problem.instance ? html`<p class="faint">${t('problem.id')} <code>${problem.instance}</code></p>` : nothing}
    <p class="actions"><button @click=${again}>${t('again')}</button>${isWhole ? html`<a class="button" href=${
        `/${location.pathname.split('/')[1]}`}>${t('missing.list')}</a><a class="button" href="/">${t('home')}</a>` : nothing}</p></div>`;

/** That there is nothing, and what to do. @param {boolean} [isWhole] there is nothing else on the screen */
export const empty = (icon, title, text, more = nothing, isWhole = false) => html`<div class="state" data-state="empty">
    <cv-icon name=${icon}></cv-icon>${isWhole ? html`<h1>${title}</h1>` : html`<h2>${title}</h2>`}<p>${text}</p>${more}</div>`;

/** In a narrow window, the way to the filters. @param {any} screen whose `areFiltersOpen` says that they are shown @param {number} chosen how many are set */
export const foldButton = (screen, chosen) => html`<button class="fold" aria-expanded=${!!screen.areFiltersOpen} @click=${() => {
    screen.areFiltersOpen = !screen.areFiltersOpen;
    screen.update();
}}>${t('jobs.fold')}${chosen ? html` <small>${chosen}</small>` : nothing}</button>`;

export const titleOf = (video) => video.title || video.name || t('untitled');

/** The button of the list of what may be done to a video. @param {any} video @param {() => number} [now] the moment that is shown, ms */
export const menuButton = (video, now = () => 0) => html`<button class="plain of-menu" aria-haspopup="menu" title=${t('video.do')}
    aria-label=${t('video.menu', {title: titleOf(video)})} @click=${({currentTarget}) => import('./video-menu.js').then(({openMenu}) => openMenu(video, currentTarget, now()))}><cv-icon
    name="more"></cv-icon></button>`;

/**
 * A video in the library, an item of a list.
 * @param {any} video
 * @param {any} [stage] what is done with it now, as GET /videos/{id}/stages has it
 * @param {any} [choice] a box by which it is chosen
 */
export function card(video, stage, choice = nothing) {
    const share = Math.round((stage?.progress ?? 0) * 100);
    const isOpen = video.status === 'new' || video.status === 'processing';
    return html`<li class="card" data-id=${video.id} data-status=${video.status}>${choice}
        <a href="/videos/${video.id}" class="poster" tabindex="-1" aria-hidden="true"><cv-poster
            data-video=${video.id} data-url=${video.poster_url ?? ''}></cv-poster>
            ${video.duration_ms ? html`<span class="length">${clock(video.duration_ms)}</span>` : nothing}
            ${isOpen && stage?.status === 'processing' ? html`<progress max="100" value=${share}
                aria-label=${t('progress')}></progress>` : nothing}</a>
        <h3><a href="/videos/${video.id}" dir="auto">${titleOf(video)}</a></h3>${menuButton(video)}
        <p class="faint">${video.status === 'ready' ? nothing : html`<span class="badge ${video.status}">${
            isOpen && stage ? stageText(stage, share) : t(`status.${video.status}`)}</span>`}
            <time datetime=${video.created_at}>${ago(video.created_at)}</time></p>
        ${video.failure?.message ? html`<p class="cause" dir="auto">${video.failure.message}</p>` : nothing}</li>`;
}

/** "Reading the text, 41 %" */
export function stageText(stage, share = Math.round(stage.progress * 100)) {
    const name = typeName(stage.job_type);
    if (stage.status === 'processing') {
        return t('stage.running', {name, share});
    }
    return t(stage.retry_at ? 'stage.again' : `stage.${stage.status}`, {name, time: ago(stage.retry_at)});
}
