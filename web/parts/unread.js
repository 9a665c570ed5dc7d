/* What is said of lines in scripts and languages that no model has read, as the API has them: [{script, lines}]. */
import {html, nothing} from '../vendor/lit-html.js';
import {hasText, languageName, t} from '../text.js';

/** @param {string} script "Cyrillic", or the model of a language: "spa" */
const scriptName = (script) => (hasText(`script.${script}`) ? t(`script.${script}`)
    : languageName(script));

/** Of one video. @param {{script: string, lines: number}[]} unread */
export const unreadLines = (unread) => unread.map(({script, lines}) => html`<p class="faint unread">${
    t('unread', {n: lines, script: scriptName(script)})}</p>`);

/** Beside a search that found nothing. @param {{script: string, lines: number}[] | undefined} unread */
export const unsearched = (unread) => (unread?.length ? html`<p class="faint unread">${
    t('none.unread', {scripts: unread.map(({script}) => scriptName(script)).join(', ')})}</p>` : nothing);
