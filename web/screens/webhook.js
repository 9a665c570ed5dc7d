/* One webhook: what it was told, whether it answered, and another secret. */
import {html, nothing} from '../vendor/lit-html.js';
import {Overview} from '../parts/operate.js';
import {empty} from '../parts/states.js';
import {go} from '../router.js';
import {ago, hasText, moment, t} from '../text.js';
import {secret} from './webhooks.js';

const SHOWN = 100; // deliveries

class WebhookScreen extends Overview {
    get path() {
        return `/webhooks/${this.dataset.id}`;
    }

    get title() {
        return 'nav.webhooks';
    }

    get sources() {
        return {webhook: this.path, deliveries: `${this.path}/deliveries?limit=${SHOWN}`};
    }

    async rotate() {
        this.made = await this.act(`${this.path}/rotate`, 'POST', {}, 'webhook.rotate.done');
        this.update();
    }

    leave() {
        this.remove({id: this.dataset.id, name: this.dataset.id}, '/webhooks');
        go('/webhooks', true);
    }

    row(one) {
        const isOver = one.state === 'done' || one.state === 'failed';
        return html`<tr data-id=${one.job_id}><td><span class="badge ${one.state}">${hasText(`state.${one.state}`) ? t(`state.${one.state}`) : one.state}</span></td>
            <td><a href="/jobs/${one.job_id}">${one.type}</a> <small class="why fault" dir="auto">${one.error ?? ''}</small></td>
            <td class="number" data-label=${t('webhook.attempts')}>${one.attempts}</td>
            <td data-label=${t('job.created')}><time datetime=${one.created_at} title=${moment(one.created_at)}>${ago(one.created_at)}</time>${
                !isOver && one.next_try_at ? `, ${t('job.next', {time: ago(one.next_try_at)})}` : ''}</td>
            <td class="do">${one.state === 'failed' ? html`<button @click=${() => this.act(`/jobs/${one.job_id}/retry`, 'POST', undefined,
                'job.retry.done')}>${t('webhook.again')}</button>` : nothing}</td></tr>`;
    }

    content() {
        const {webhook: one, deliveries} = this.lists;
        const isOff = one.disabled_at !== null;
        return html`<h2>${one.name} <span class="badge ${isOff ? 'paused' : 'done'}">${t(`trigger.is.${isOff ? 'paused' : 'working'}`)}</span></h2>
            <p><code>${one.url}</code> <span class="faint" dir="auto">${one.description ?? ''} ${one.disabled_reason ?? ''}</span></p>
            <p class="actions"><button class="main" @click=${() => this.act(`${this.path}/test`, 'POST', undefined, 'webhook.test.done')}>${t('webhook.test')}</button>
                <button @click=${() => this.rotate()}>${t('webhook.rotate')}</button>
                <button @click=${() => this.act(this.path, 'PATCH', {is_enabled: isOff, ...!isOff && {reason: t('queue.pause.reason')}},
                    `trigger.${isOff ? 'resume' : 'pause'}.done`)}>${t(isOff ? 'queue.resume' : 'queue.pause')}</button>
                <button @click=${() => this.leave()}>${t('trigger.delete')}</button></p>
            ${this.made ? secret(this.made) : nothing}
            <h2 class="next">${t('webhook.deliveries')}</h2>
            ${deliveries.length ? html`<table><thead><tr><th>${t('job.state')}</th><th>${t('event.what')}</th><th class="number">${t('webhook.attempts')}</th>
                <th>${t('job.created')}</th><th>${t('failure.do')}</th></tr></thead><tbody>${deliveries.map((one) => this.row(one))}</tbody></table>`
                : empty('link', t('webhook.deliveries.none'), t('webhook.deliveries.none.text'))}`;
    }
}
customElements.define('screen-webhook', WebhookScreen);
