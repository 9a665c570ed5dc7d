/* Links for people without an account: what each shows, how often it was opened, and the way to revoke it. */
import {html, nothing} from '../vendor/lit-html.js';
import {ask, who} from '../api.js';
import {Overview} from '../parts/operate.js';
import {asks} from '../parts/question.js';
import {empty} from '../parts/states.js';
import {ago, clock, count, day, moment, t} from '../text.js';

const BADGES = {open: 'done', off: 'paused', ended: '', revoked: ''};

class SharesScreen extends Overview {
    rule = {may_change: false, allowed: true, tenant_id: ''};

    get title() {
        return 'nav.shares';
    }

    get sources() {
        return {shares: '/shares?limit=200'};
    }

    async load() {
        this.me = await who().catch(() => null);
        this.rule = await ask('/sharing').catch(() => this.rule);
        return super.load();
    }

    allow(allowed) {
        return this.act(`/tenants/${this.rule.tenant_id}/sharing`, 'PUT', {allowed}, allowed ? 'share.allowed' : 'share.forbidden');
    }

    async revoke(one) {
        if (await asks('share.revoke')) {
            this.act(`/shares/${one.id}`, 'DELETE', undefined, 'share.revoked');
        }
    }

    thing(one) {
        const url = one.search_id ? '/alerts' : `/videos/${one.video_id}${one.at_ms ? `?t=${one.at_ms / 1000}` : ''}`;
        return html`<a href=${url} dir="auto">${one.title}</a> <small class="why">${t(`share.kind.${one.kind}`)}${one.to_ms === null ? nothing
            : html` ${clock(one.from_ms, 1)} – ${clock(one.to_ms, 1)}`}${one.may_download ? html` · ${t('share.download')}` : nothing}</small>`;
    }

    row(one) {
        const isOver = one.state === 'ended' || one.state === 'revoked';
        return html`<tr data-id=${one.id}><td><span class="badge ${BADGES[one.state]}">${t(`share.state.${one.state}`)}</span></td><td>${this.thing(one)}</td>
            <td data-label=${t('share.views')}>${count(one.views)} ${one.seen_at ? html`<small class="why"><time title=${moment(one.seen_at)}>${ago(one.seen_at)}</time></small>` : nothing}</td>
            <td data-label=${t('share.days')}>${one.ends_at ? day(one.ends_at) : t('share.days.0')}</td><td data-label=${t('share.by')} dir="auto">${one.made_by}</td>
            <td class="actions">${isOver || this.me?.role === 'viewer' ? nothing : html`<button @click=${() => this.revoke(one)}>${t('share.revoke')}</button>`}</td></tr>`;
    }

    content() {
        const shares = this.listed('shares');
        return html`${this.rule.may_change ? html`<p><label><input type="checkbox" .checked=${this.rule.allowed}
                @change=${({target}) => this.allow(target.checked)}> ${t('share.allow.label')}</label></p>` : nothing}
            ${this.rule.allowed ? nothing : html`<p class="why-box">${t('share.off')}</p>`}
            ${shares.length ? html`<table><thead><tr><th>${t('job.state')}</th><th>${t('share.what')}</th><th>${t('share.views')}</th><th>${t('share.days')}</th>
                <th>${t('share.by')}</th><th></th></tr></thead><tbody>${shares.map((one) => this.row(one))}</tbody></table>`
                : empty('link', t('share.none'), t('share.none.text'))}`;
    }
}
customElements.define('screen-shares', SharesScreen);
