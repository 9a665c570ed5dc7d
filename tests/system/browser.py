"""A page in headless Chromium that plays videos and says what it saw."""
import contextlib
import http.server
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading

PLAYER = """<!doctype html><title>player</title><body><script>
const once = (target, name) => new Promise((good, bad) => {
    target.addEventListener(name, good, {once: true});
    target.addEventListener('error', () => bad(new Error('error ' + (target.error || {}).message)),
                            {once: true});
});

// The number that the picture shows as columns, black 0 and white 1, lowest bit first.
function number_of(video, bits) {
    const canvas = document.createElement('canvas');
    canvas.width = video.videoWidth;
    canvas.height = video.videoHeight;
    const context = canvas.getContext('2d');
    context.drawImage(video, 0, 0);
    let number = 0;
    for (let bit = 0; bit < bits; bit++) {
        const x = Math.floor((bit + 0.5) * canvas.width / bits);
        const pixel = context.getImageData(x, canvas.height >> 1, 1, 1).data;
        number += pixel[1] > 127 ? 2 ** bit : 0;
    }
    return number;
}

// 'seeked' may come before the picture is there to be drawn: looks until it shows the number, or in vain.
async function shown(video, wanted, bits) {
    const last = performance.now() + 3000;
    let number;
    do {
        number = number_of(video, bits);
        if (number !== wanted) await new Promise(requestAnimationFrame);
    } while (number !== wanted && performance.now() < last);
    return number;
}

async function open(bytes) {
    const video = document.createElement('video');
    video.muted = true;
    document.body.append(video);
    video.src = URL.createObjectURL(bytes);
    await once(video, 'loadeddata');
    return video;
}

// From the beginning to the end. Where Chromium is late for a last picture that nothing follows, it ends at once, however
// long that picture lasts and at whatever speed; the pictures that it has decoded until then are always all.
async function play(bytes) {
    const video = await open(bytes);
    video.playbackRate = 4;
    const over = once(video, 'ended');
    await video.play();
    await over;
    return {end: video.currentTime, frames: video.getVideoPlaybackQuality().totalVideoFrames,
            sound: (video.webkitAudioDecodedByteCount || 0) > 0};
}

async function watch(name, moments, bits) {
    const seen = {name, numbers: []};
    try {
        const bytes = await (await fetch('/videos/' + name)).blob();
        const video = await open(bytes);
        Object.assign(seen, {width: video.videoWidth, height: video.videoHeight,
                             duration: video.duration});
        for (const [time, wanted] of moments) {
            const sought = once(video, 'seeked');
            video.currentTime = time;
            await sought;
            seen.numbers.push(await shown(video, wanted, bits));
        }
        Object.assign(seen, await play(bytes));
    } catch (problem) {
        seen.error = String(problem);
    }
    return seen;
}

(async () => {
    const seen = [];
    for (const [name, moments, bits] of await (await fetch('/tasks')).json())
        seen.push(await watch(name, moments, bits));
    await fetch('/seen', {method: 'POST', body: JSON.stringify(seen)});
})();
</script>"""


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        name = self.path.rpartition("/")[2]
        if self.path == "/":
            body, kind = PLAYER.encode(), "text/html"
        elif self.path == "/tasks":
            body, kind = json.dumps(server.tasks).encode(), "application/json"
        elif self.path.startswith("/videos/") and name in server.videos:
            body, kind = server.videos[name].read_bytes(), "application/octet-stream"
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.server.seen = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.server.has_seen.set()

    def log_message(self, *arguments):
        pass


def watch(tasks, deadline=300):
    """[(path, [(time, number), …], bits), …] to what the browser saw of each: a dictionary."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    names = [f"{i}{path.suffix}" for i, (path, _, _) in enumerate(tasks)]
    server.videos = dict(zip(names, (path for path, _, _ in tasks)))
    server.tasks = [[name, moments, bits] for name, (_, moments, bits) in zip(names, tasks)]
    server.has_seen = threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    profile = tempfile.mkdtemp(prefix="cv-chromium-")
    browser = subprocess.Popen(
        ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
         "--disable-dev-shm-usage", "--disable-background-networking", "--mute-audio",
         "--autoplay-policy=no-user-gesture-required", f"--user-data-dir={profile}",
         f"http://127.0.0.1:{server.server_port}/"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True)
    try:
        assert server.has_seen.wait(deadline), f"nothing from Chromium in {deadline} s"
        return server.seen
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()
        server.shutdown()
        server.server_close()
        shutil.rmtree(profile, ignore_errors=True)
