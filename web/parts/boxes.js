/* Boxes around the text in the picture. They follow a line along its track, or from where it appeared to where it was
 * last. */

const ROUNDED_MS = 0.5; // times of lines are rounded to ms, those of frames are not

/** Where the track is at a time. @param {number[]} track t, x, y, dt, dx, dy, … @param {number} ms */
function pointAt(track, ms) {
    let [t, x, y] = track;
    for (let i = 3; i < track.length; i += 3) {
        const [dt, dx, dy] = [track[i], track[i + 1], track[i + 2]];
        if (ms < t + dt) {
            const share = Math.max(ms - t, 0) / dt;
            return {x: x + dx * share, y: y + dy * share};
        }
        [t, x, y] = [t + dt, x + dx, y + dy];
    }
    return {x, y};
}

/** @param {any} line @param {number} ms @returns {{x: number, y: number, width: number, height: number}} */
export function boxAt(line, ms) {
    const share = line.end_box && line.t_end > line.t_start
        ? Math.min(Math.max((ms - line.t_start) / (line.t_end - line.t_start), 0), 1) : 0;
    if (line.track?.length) {
        return {...line.box, ...pointAt(line.track, ms)};
    }
    const between = (name) => line.box[name] + ((line.end_box ?? line.box)[name] - line.box[name]) * share;
    return {x: between('x'), y: between('y'), width: between('width'), height: between('height')};
}

class Boxes extends HTMLElement {
    #made = new Map(); // line → its element
    #lines = [];
    #size = [0, 0]; // of the upright frame, pixels
    now = 0;

    connectedCallback() {
        this.observer = new ResizeObserver(() => this.at(this.now));
        this.observer.observe(this);
    }

    disconnectedCallback() {
        this.observer.disconnect();
    }

    /** What may be shown. @param {any} video @param {any[]} lines @param {Map<string, any>} hits @param {string} mode */
    show(video, lines, hits, mode) {
        this.#size = (video?.resolution ?? '0x0').split('x').map(Number);
        this.hits = hits;
        this.#lines = mode === 'none' ? [] : lines.filter((line) => line.box && (mode === 'all' || hits.has(line.id)));
        this.at(this.now);
    }

    element(line) {
        let made = this.#made.get(line.id);
        if (!made) {
            made = document.createElement('span');
            made.textContent = line.text;
            made.dir = 'auto';
            made.dataset.id = line.id;
            this.#made.set(line.id, made);
            this.append(made);
        }
        made.classList.toggle('found', this.hits.has(line.id));
        return made;
    }

    /** @param {number} ms of the frame that is shown */
    at(ms) {
        this.now = ms;
        const [width, height] = this.#size;
        const shown = width ? this.#lines.filter((line) => line.t_start <= ms + ROUNDED_MS && ms + ROUNDED_MS < line.t_end) : [];
        const ids = new Set(shown.map((line) => line.id));
        for (const [id, made] of this.#made) {
            if (!ids.has(id)) {
                made.remove();
                this.#made.delete(id);
            }
        }
        const scale = Math.min(this.clientWidth / width, this.clientHeight / height);
        const left = (this.clientWidth - width * scale) / 2;
        const top = (this.clientHeight - height * scale) / 2;
        for (const line of shown) {
            const box = boxAt(line, ms);
            const style = this.element(line).style;
            style.setProperty('left', `${left + box.x * scale}px`);
            style.setProperty('top', `${top + box.y * scale}px`);
            style.setProperty('width', `${box.width * scale}px`);
            style.setProperty('height', `${box.height * scale}px`);
            style.setProperty('font-size', `${box.height * scale * 0.8}px`);
        }
    }
}
customElements.define('cv-boxes', Boxes);
