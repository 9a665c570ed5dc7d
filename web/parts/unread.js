/* What is said of lines that were not read, as the API has them (Unread): of each kind, in the script that a model would read. */
import {html, nothing} from '../vendor/lit-html.js';
import {hasText, languageName, t} from '../text.js';

/** @typedef {{kind: string, script: string | null, lines: number}} Unread */

/** @param {string | null} script "Cyrillic", or the model of a language: "spa" */
const scriptName = (script) => (script && hasText(`script.${script}`) ? t(`script.${script}`) : languageName(script ?? ''));

/** Of one video. @param {Unread[]} unread */
export const unreadLines = (unread) => unread.map(({kind, script, lines}) => html`<p class="faint unread">${
    t(`unread.${kind}`, {n: lines, script: scriptName(script)})}</p>`);

/** Beside a search that found nothing. @param {Unread[] | undefined} unread */
export const unsearched = (unread) => {
    const scripts = [...new Set(unread?.filter(({script}) => script).map(({script}) => scriptName(script)))];
    return scripts.length ? html`<p class="faint unread">${t('none.unread', {scripts: scripts.join(', ')})}</p>` : nothing;
};
