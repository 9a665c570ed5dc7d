"""A server that hears words in tones and answers as OpenAI's /v1/audio/transcriptions does: each word has a pitch. So its times
are those of the sound that it got, and nothing that a test told it."""

import array
import email
import email.policy
import json
import subprocess
import threading

from json_server import JsonServer

WORDS = {500: "The old bridge", 900: "Grüße aus Berlin", 1300: "call #tomorrow", 1700: "the last word"}
RATE = 16000
WINDOW = 100  # ms: pitches are multiples of 100 Hz, which have whole waves in it


def make_sound(path, tones, seconds, *arguments):
    """A small video with tones: (pitch, begin, end) in seconds. Arguments are ffmpeg's, before the output."""
    sound = "+".join(f"0.5*sin(2*PI*{pitch}*t)*between(t,{start},{end})" for pitch, start, end in tones) or "0"
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", f"color=black:size=64x64:rate=5:duration={seconds}",
                    "-f", "lavfi", "-i", f"aevalsrc='{sound}':s=8000:d={seconds}", "-c:v", "libx264", "-preset", "ultrafast",
                    *arguments, str(path)], check=True)
    return path


def pitch_of(samples):
    """The pitch of a window, by its zero crossings; 0: it is silent."""
    if max(samples, default=0) < 1000:
        return 0
    crossings = sum((a < 0) != (b < 0) for a, b in zip(samples, samples[1:]))
    return min(WORDS, key=lambda pitch: abs(pitch - crossings * 1000 / WINDOW / 2))


def hear_tones(samples):
    """The segments: runs of windows of one pitch."""
    size = RATE * WINDOW // 1000
    pitches = [pitch_of(samples[at:at + size]) for at in range(0, len(samples), size)] + [0]
    segments, begin = [], 0
    for at in range(1, len(pitches)):
        if pitches[at] != pitches[begin]:
            if pitches[begin] and at - begin > 1:  # one window alone is the edge of a tone
                segments.append({"id": len(segments), "start": begin * WINDOW / 1000, "end": at * WINDOW / 1000,
                                 "text": " " + WORDS[pitches[begin]]})
            begin = at
    return segments


class SpeechServer(JsonServer):
    """`requests` has what each request was, `probes` their number of a worker that looks whether it works. `fault`: (status, body,
    headers) of every answer; (): none comes; an event: answers wait for it. `hear` finds the segments in samples."""

    path = "/v1/audio/transcriptions"

    def __init__(self, hear=hear_tones):
        self.probes = 0
        self.fault = None
        self.language = "english"
        self.hear = hear
        super().__init__()

    def respond(self, handler, body):
        form = email.message_from_bytes(b"Content-Type: " + handler.headers["Content-Type"].encode() + b"\r\n\r\n" + body,
                                        policy=email.policy.HTTP)
        parts = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
        sound = parts["file"].get_payload(decode=True)
        fields = {name: part.get_content().strip() for name, part in parts.items() if name != "file"}
        probe = subprocess.run(["ffprobe", "-v", "error", "-of", "json", "-show_streams", "-"], input=sound,
                               capture_output=True, check=True)
        stream = json.loads(probe.stdout)["streams"][0]
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", "-", "-f", "s16le", "-"], input=sound, capture_output=True,
                             check=True).stdout
        samples = array.array("h", raw)
        request = {"fields": fields, "file": parts["file"].get_filename(), "type": parts["file"].get_content_type(),
                   "stream": stream, "seconds": len(samples) / RATE, "bytes": len(sound), "path": handler.path,
                   "headers": dict(handler.headers), "segments": self.hear(samples)}
        if request["segments"] or len(samples) != RATE:
            self.requests.append(request)
        else:  # a second of silence
            self.probes += 1
        if isinstance(self.fault, threading.Event):
            self.fault.wait()
        elif self.fault is not None:
            handler.close_connection = not self.fault
            if self.fault:
                handler.tell_json(*self.fault)
            return
        handler.tell_json(200, {"task": "transcribe", "language": self.language, "duration": request["seconds"],
                             "text": "".join(s["text"] for s in request["segments"]), "segments": request["segments"]})
