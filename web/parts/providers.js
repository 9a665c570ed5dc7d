/* Providers of OpenID Connect by which people sign in: those that there are, and a form that adds or changes one. */
import {html, nothing} from '../vendor/lit-html.js';
import {t} from '../text.js';
import {copy} from './toast.js';

const ROLES = ['viewer', 'editor', 'admin'];

/** @param {any} screen an Overview, with the list providers @param {{id: string, name: string}[]} tenants that people may be let into */
export function providers(screen, tenants) {
    const save = async (event) => {
        event.preventDefault();
        const form = event.target;
        const {name, tenant_id: tenant, role, client_secret: secret, ...body} = Object.fromEntries(new FormData(form));
        const done = await screen.act(`/providers/${encodeURIComponent(name)}`, 'PUT',
            {...body, ...secret && {client_secret: secret}, ...tenant && {tenant_id: tenant, role}}, 'provider.done');
        if (done) {
            form.reset();
        }
    };
    const field = (name, more = {}) => html`<label>${t(`provider.${name}`)} <input name=${name} ?required=${!more.isOptional} type=${more.type ?? 'text'}
        pattern=${more.pattern ?? nothing} title=${more.title ?? nothing} placeholder=${more.placeholder ?? nothing} maxlength=${more.most ?? 300} autocomplete="off"></label>`;
    const all = screen.listed('providers');
    return html`<section><h2 class="next">${t('provider')}</h2>
        ${all.length ? html`<table class="providers"><tbody>${all.map((one) => html`<tr data-name=${one.name}><td><b dir="auto">${one.title}</b></td><td><code>${one.name}</code></td>
            <td class="do"><button @click=${() => screen.remove({id: one.name, name: one.title}, '/providers')}>${t('person.remove')}</button></td></tr>`)}</tbody></table>`
            : html`<p class="faint">${t('provider.none')}</p>`}
        <details><summary class="button">${t('provider.add')}</summary><form class="make filters" @submit=${save}>
            ${field('name', {pattern: '[a-z][a-z0-9\\-]*', title: t('provider.name.form'), placeholder: 'google', most: 40})}${field('title', {placeholder: 'Google', most: 60})}
            ${field('issuer', {type: 'url', placeholder: t('provider.issuer.example')})}${field('client_id')}
            ${field('client_secret', {type: 'password', isOptional: true, most: 500})}
            <label>${t('provider.tenant')} <select name="tenant_id"><option value="">${t('provider.invited')}</option>${tenants.map((one) => html`<option value=${one.id}>${t('provider.all', {tenant: one.name})}</option>`)}</select></label>
            <label>${t('key.role')} <select name="role">${ROLES.map((role) => html`<option value=${role}>${t(`role.${role}`)}</option>`)}</select></label>
            <p class="faint">${t('provider.redirect')} <code>${location.origin}/signed-in</code> <button type="button" class="plain" @click=${() => copy(`${location.origin}/signed-in`, t('copied'))}><cv-icon
                name="copy"></cv-icon>${t('copy')}</button></p>
            <p class="actions"><button class="main">${t('provider.save')}</button></p></form></details></section>`;
}
