/* Asks before a link signs somebody else in: whoever made the link would get what the reader then uploads. */
import {html, render} from '../vendor/lit-html.js';
import {t} from '../text.js';

const ID_SHOWN = 8; // characters of a user's id that a reader compares

/** @param {{role: string, user_id: string | null}} one */
const nameOf = ({role, user_id: id}) => `${t(`role.${role}`)}${id ? ` (${id.slice(0, ID_SHOWN)}…)` : ''}`;

/**
 * @param {{role: string, user_id: string | null}} current who is signed in
 * @param {{role: string, user_id: string | null}} other whom the link would sign in
 * @returns {Promise<boolean>} whether the reader wants to become the other one
 */
export function asksForOther(current, other) {
    const place = document.createElement('div');
    document.body.append(place);
    render(html`<dialog class="sheet" id="other-user" aria-labelledby="other-user-title">
        <form method="dialog">
            <h2 id="other-user-title">${t('other-user')}</h2>
            <p>${t('other-user.now', {name: nameOf(current)})} ${t('other-user.link', {name: nameOf(other)})}</p>
            <p>${t('other-user.why')}</p>
            <button class="main" autofocus value="stay">${t('other-user.stay')}</button>
            <button value="change">${t('other-user.change')}</button>
        </form></dialog>`, place);
    const dialog = place.querySelector('dialog');
    dialog.showModal();
    return new Promise((done) => dialog.addEventListener('close', () => {
        done(dialog.returnValue === 'change');
        place.remove();
    }));
}
