/* Where one was in each video, in this browser. */
const KEPT = 100; // videos, the last ones
const RESUME_AFTER_MS = 60000; // a shorter video begins at its beginning

const positions = () => JSON.parse(localStorage.getItem('positions') ?? '{}');

/** Where to go on, ms; 0: at the beginning. @param {{id: string, duration_ms: number}} file */
export function positionIn(file) {
    const at = positions()[file.id] ?? 0;
    return file.duration_ms > RESUME_AFTER_MS && at < file.duration_ms * 0.95 ? at : 0;
}

/** @param {string} id of a video @param {number} ms */
export function keepPosition(id, ms) {
    const {[id]: _, ...others} = positions();
    localStorage.setItem('positions', JSON.stringify(Object.fromEntries(Object.entries({...others, [id]: Math.round(ms)}).slice(-KEPT))));
}
