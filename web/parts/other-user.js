/* Asks before a link signs somebody else in: whoever made the link would get what the reader then uploads. */
import {t} from '../text.js';
import {asks} from './question.js';

const ID_SHOWN = 8; // characters of a user's id that a reader compares

/** @param {{role: string, user_id: string | null}} one */
const nameOf = ({role, user_id: id}) => `${t(`role.${role}`)}${id ? ` (${id.slice(0, ID_SHOWN)}…)` : ''}`;

/**
 * @param {{role: string, user_id: string | null}} current who is signed in
 * @param {{role: string, user_id: string | null}} other whom the link would sign in
 * @returns {Promise<boolean>} whether the reader wants to become the other one
 */
export const asksForOther = (current, other) => asks('other-user', {now: nameOf(current), link: nameOf(other)});
