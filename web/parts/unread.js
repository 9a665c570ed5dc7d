/* What is said of lines that were not read, as the API has them: [{script, lines}]; the script names the model that would read
 * them, or says "truncated": more new text than is read in a second; or "pictures": subtitles that are pictures; "pictures_hin":
 * such ones in a language that no model has read. */
import {html, nothing} from '../vendor/lit-html.js';
import {hasText, languageName, t} from '../text.js';

/** @param {string} script "Cyrillic", or the model of a language: "spa" */
const scriptName = (script) => (hasText(`script.${script}`) ? t(`script.${script}`)
    : languageName(script));

const others = ['truncated', 'pictures'];
const pictures = 'pictures_';

/** Of one video. @param {{script: string, lines: number}[]} unread */
export const unreadLines = (unread) => unread.map(({script, lines}) => html`<p class="faint unread">${
    others.includes(script) ? t(`unread.${script}`, {n: lines})
        : t(script.startsWith(pictures) ? 'unread.subtitles' : 'unread', {n: lines, script: scriptName(script.replace(pictures, ''))})}</p>`);

/** Beside a search that found nothing. @param {{script: string, lines: number}[] | undefined} unread */
export const unsearched = (unread) => {
    const scripts = unread?.map(({script}) => script).filter((script) => !others.includes(script)) ?? [];
    return scripts.length ? html`<p class="faint unread">${
        t('none.unread', {scripts: [...new Set(scripts.map((script) => scriptName(script.replace(pictures, ''))))].join(', ')})}</p>` : nothing;
};
