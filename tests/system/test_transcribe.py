"""What was said: the stage transcribe, against a server that hears words in tones, and against one that recognises speech."""

import array
import json
import os
import pathlib
import re
import resource
import subprocess
import threading
import wave

import pytest
from speech_server import RATE, SpeechServer, make_sound
from workers import wait_until

VIDEO = "7d9b1c1e-52d1-4f0e-9a55-0c4f1a2b3c4d"
SPOKEN = [(500, 1, 2), (900, 3.5, 4.5)]


@pytest.fixture(scope="module")
def one_server():
    started = SpeechServer()
    yield started
    started.close()


@pytest.fixture
def speech(one_server):
    one_server.requests, one_server.probes, one_server.fault = [], 0, None
    return one_server


@pytest.fixture
def transcribe(program, store_dir, speech):
    """Runs the stage alone over a file: (exit status, its result or error)."""
    def run(source, query="", from_ms=0, **environment):
        key = f"videos/original/{VIDEO}/master{source.suffix}"
        (store_dir / key).parent.mkdir(parents=True, exist_ok=True)
        (store_dir / key).write_bytes(source.read_bytes())
        done = subprocess.run([program("transcribe-worker"), "--once"], capture_output=True, text=True, check=False,
                              input=json.dumps({"video_id": VIDEO, "s3_original_path": key, "from_ms": from_ms}),
                              env={**os.environ, "STORE_URL": f"dir:{store_dir}", "TRANSCRIBE_URL": speech.url + query, **environment})
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    return run


def put(workers, queue, source):
    """A video whose original is this file."""
    video = queue.video()
    key = f"videos/original/{video}/master.mp4"
    (workers.store / key).parent.mkdir(parents=True)
    (workers.store / key).write_bytes(source.read_bytes())
    queue.run("UPDATE videos SET s3_original_path = %s WHERE id = %s", key, video)
    return video


def lines_of(result):
    return [(line["text"], line["t_start"], line["t_end"], line.get("language")) for line in result["lines"]]


@pytest.fixture(scope="session")
def spoken(tmp_path_factory):
    return make_sound(tmp_path_factory.mktemp("speech") / "a.mp4", SPOKEN, 6)


def test_words_have_the_times_of_their_sound(transcribe, speech, spoken):
    """The form is what the endpoint's documentation says, the sound what recognisers want; the URL's query are members."""
    code, result = transcribe(spoken, "?model=whisper%2D1&language=en", TRANSCRIBE_API_KEY="s3cr3t")
    assert code == 0 and lines_of(result) == [("The old bridge", 1000, 2000, "eng"), ("Grüße aus Berlin", 3500, 4500, "eng")]
    (request,) = speech.requests
    assert request["fields"] == {"response_format": "verbose_json", "model": "whisper-1", "language": "en"}
    assert (request["path"], request["type"], request["file"]) == ("/v1/audio/transcriptions", "audio/wav", "sound.wav")
    assert request["headers"]["Authorization"] == "Bearer s3cr3t"
    stream = request["stream"]
    assert (stream["codec_name"], stream["sample_rate"], stream["channels"]) == ("pcm_s16le", "16000", 1)
    assert request["seconds"] == pytest.approx(6, abs=0.1) and "goes_on_ms" not in result


@pytest.mark.parametrize("arguments", [("-an",), ("-af", "volume=0")], ids=["no sound", "silence"])
def test_silence_costs_no_request(transcribe, speech, tmp_path, arguments):
    code, result = transcribe(make_sound(tmp_path / "a.mp4", SPOKEN, 6, *arguments))
    assert (code, result["lines"], result["summary"]["is_silent"], speech.requests) == (0, [], True, [])


@pytest.mark.parametrize("name, arguments", [
    ("a.mkv", ("-c:a", "libopus", "-ac", "1")), ("a.ts", ("-c:a", "mp2", "-output_ts_offset", "50")),
    ("a.mov", ("-c:a", "pcm_s24be", "-ar", "96000"))])
def test_sound_of_any_kind_has_the_same_words(transcribe, tmp_path, name, arguments):
    code, result = transcribe(make_sound(tmp_path / name, SPOKEN, 6, *arguments))
    assert code == 0 and [line["text"] for line in result["lines"]] == ["The old bridge", "Grüße aus Berlin"]
    assert [abs(line["t_start"] - start) <= 150 for line, start in zip(result["lines"], (1000, 3500))] == [True, True]


def line(start, end, text="hi"):
    return {"start": start, "end": end, "text": text}


@pytest.mark.parametrize("status, body, kind, words", [
    (401, {"error": {"message": "bad key"}}, "AuthenticationFailed", "refuses 6 s of sound: 401 bad key"),
    (404, b"<html>", "ConfigurationError", "404"),
    (413, b"<html>", "ConfigurationError", "refuses 6 s of sound: 413"),
    (429, {"error": "slow down"}, "Throttled", "429 slow down"),
    (500, b"\xff\xfe", "ServerError", "500"),
    (307, b"", "ConfigurationError", "307"),
    (200, b"", "ServerError", "no JSON object"),
    (200, b"no json", "ServerError", "no JSON object"),
    (200, b"[" * 100000, "ServerError", "no JSON object"),
    (200, {"what": 1}, "ServerError", 'neither "segments" nor "text"'),
    (200, {"error": "failed to read WAV file"}, "ServerError", 'nor "text": failed to read WAV file'),
    (200, {"text": "no times"}, "ConfigurationError", "response_format=verbose_json"),
    (200, b'{"segments": [{"start": NaN, "end": 1, "text": "hi"}]}', "ServerError", "no JSON object"),
    (200, b'{"segments": [{"start": 1e999, "end": 1, "text": "hi"}]}', "ServerError", "no JSON object"),
    (200, {"segments": [line("1", 2)]}, "ServerError", "segment 0 has no text, or no times"),
    (200, {"segments": [line(0, 1), {"start": 1, "end": 2}]}, "ServerError", "segment 1 has no text"),
    (200, {"segments": [line(1e300, 1e301)]}, "ServerError", "segment 0 has no text, or no times"),
    (200, {"segments": [line(1000, 2000), line(3500, 4500), line(0, 1)]}, "ServerError", "2 of its 3 segments are not within"),
    (200, {"segments": [line(2, 1)]}, "ServerError", "1 of its 1 segments are not within"),
    (200, {"segments": [line(0, 1)] * 10001}, "ServerError", "10001 segments"),
    (200, None, "ServerError", "longer than 16 MiB"),
])
def test_what_an_endpoint_may_say(transcribe, speech, spoken, status, body, kind, words):
    """Each fault is the endpoint's, not the job's: it is tried again, after the supervisor has looked at the endpoint."""
    body = b'{"segments": [' + b" " * (17 << 20) + b"]}" if body is None else body
    speech.fault = (status, body, {"Retry-After": "7"} if status == 429 else {})
    code, result = transcribe(spoken, TRANSCRIBE_API_KEY="s3cr3t")
    error = result["error"]
    assert (error["type"], error["environment"], error["retryable"]) == (kind, True, True) and words in error["message"]
    assert code in (75, 78) and "s3cr3t" not in json.dumps(result) and len(speech.requests) == 1
    assert error["retry_after_ms"] == (7000 if status == 429 else 0)


def test_odd_answers_become_clean_lines(transcribe, speech, spoken):
    """Times are cut to the sound, what is outside is left out, and overlapping lines stay; a huge text is cut, white space is one blank."""
    speech.fault = (200, {"language": "Klingon", "segments": [
        line(4, 5, "later"), line(-0.2, 1, " \n first\t line \r\n"), line(0.5, 2, "overlaps"), line(5, 60, "beyond"),
        line(90, 91, "outside"), line(3, 3, "no time"), line(2, 3, " "), line(2, 3, "ü" * 5000)]})
    code, result = transcribe(spoken)
    texts = [(text, start, end) for text, start, end, _ in lines_of(result)]
    assert code == 0 and texts == [("first line", 0, 1000), ("overlaps", 500, 2000), ("ü" * 999, 2000, 3000), ("later", 4000, 5000),
                                   ("beyond", 5000, result["summary"]["to_ms"])]
    assert "language" not in result["lines"][0]


def test_no_answer_is_the_endpoints_fault(transcribe, speech, spoken):
    speech.fault = ()
    code, result = transcribe(spoken)
    assert (code, result["error"]["type"], result["error"]["environment"]) == (75, "ConnectionLost", True)
    code, result = transcribe(spoken, TRANSCRIBE_URL="http://127.0.0.1:1/")
    assert (code, result["error"]["type"], result["error"]["environment"]) == (75, "ConnectionLost", True)


@pytest.mark.parametrize("url, words", [
    (None, "TRANSCRIBE_URL is not set"), ("ftp://127.0.0.1/x", "not an http or https URL"),
    ("http://key@127.0.0.1/x", "give the key as TRANSCRIBE_API_KEY"), ("http://127.0.0.1/x?model", "name=value")])
def test_a_worker_without_an_endpoint_claims_nothing(workers, url, words):
    worker = workers.start("transcribe-worker", TRANSCRIBE_URL=url)
    assert worker.wait() == 78 and worker.says(words)


def cpu_time_of(run):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    run()
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def test_a_late_piece_costs_what_the_first_one_does(transcribe, tmp_path):
    """It is found by the index: nothing before it is decoded. Nobody answers: the sound alone counts."""
    minute, long = make_sound(tmp_path / "minute.mp4", [(500, 0, 60)], 60), tmp_path / "a.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-stream_loop", "29", "-i", minute, "-c", "copy", long], check=True)
    first, late = (cpu_time_of(lambda at=at: transcribe(long, from_ms=at, TRANSCRIBE_URL="http://127.0.0.1:1/")) for at in (0, 1500000))
    assert late < 3 * first


def finish(queue):
    wait_until(lambda: not queue.value("SELECT count(*) FROM jobs WHERE job_type = 'transcribe' AND status <> 'done'"), "the speech")


def speech_of(queue, video):
    return [tuple(row.values()) for row in queue.run("SELECT text, t_start, t_end FROM segments WHERE video_id = %s AND source = 'speech'"
                                             " ORDER BY t_start", video)]


def test_a_long_video_is_heard_in_pieces(program, workers, queue, speech, tmp_path):
    """Cut where it is quiet; times go on; each piece is a job, and has its lines at once. Again: the same lines, once."""
    tones = [(500, 10, 12), (1300, 275, 284.5), (900, 286, 299.8), (1300, 300.4, 320), (1700, 630, 631)]
    video = put(workers, queue, make_sound(tmp_path / "a.mp4", tones, 640))
    queue.run("SELECT transcribe_video(%s)", video)
    worker = workers.start("transcribe-worker", TRANSCRIBE_URL=speech.url)
    finish(queue)
    lines = speech_of(queue, video)
    assert [text for text, _, _ in lines] == ["The old bridge", "call #tomorrow", "Grüße aus Berlin", "call #tomorrow", "the last word"]
    for (_, start, end), (_, begins, ends) in zip(lines, [tone for tone in tones]):
        assert abs(start - begins * 1000) <= 150 and abs(end - ends * 1000) <= 150
    pieces = [request["seconds"] for request in speech.requests]
    assert len(pieces) == 3 and 284.5 < pieces[0] < 286 and sum(pieces) == pytest.approx(640, abs=0.2)
    assert max(request["bytes"] for request in speech.requests) < 25 << 20
    assert queue.value("SELECT count(*) FROM entities e JOIN segments s ON s.id = e.segment_id WHERE entity_type = 'hashtag'") == 2
    done = subprocess.run([program("cortana"), "transcribe", str(video)], env=workers.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "hears what is said" in done.stdout, done.stderr
    finish(queue)
    assert speech_of(queue, video) == lines and worker.stop() == 0
    assert queue.value("SELECT count(*) FROM search_segments('source:speech bridge')") == 1
    assert queue.value("SELECT count(*) FROM search_segments('source:subtitle bridge')") == 0


def test_what_is_shown_and_said_at_once_is_one_hit(workers, queue, speech, spoken):
    video = put(workers, queue, spoken)
    queue.write_text(video, ["The old bridge"], t_start=1200, t_end=2500)
    queue.run("SELECT transcribe_video(%s)", video)
    workers.start("transcribe-worker", TRANSCRIBE_URL=speech.url)
    finish(queue)
    (hit,) = queue.run("SELECT * FROM search_segments('bridge')")
    assert hit["sources"] == ["screen", "speech"]
    queue.write_text(video, [])
    assert len(speech_of(queue, video)) == 2, "reading the screen again leaves what was said"
    queue.run("DELETE FROM videos WHERE id = %s", video)
    assert not queue.value("SELECT count(*) FROM segments")


def test_the_stage_has_no_network_and_no_key(workers, queue, speech, spoken):
    """Its broker asks. A worker that is told to stop does not wait for a slow answer, and gives its job back."""
    video = put(workers, queue, spoken)
    worker = workers.start("transcribe-worker", TRANSCRIBE_URL=speech.url, TRANSCRIBE_API_KEY="s3cr3t", CORTANA_GRACE_MS="100")
    wait_until(lambda: speech.probes, "its start")
    speech.fault = threading.Event()
    queue.run("SELECT transcribe_video(%s)", video)
    wait_until(lambda: speech.requests, "a request")
    stage = pathlib.Path(f"/proc/{worker.wait_for_stage()}")
    assert b"TRANSCRIBE" not in (stage / "environ").read_bytes()
    sockets = {os.readlink(fd) for fd in (stage / "fd").iterdir()}
    internet = {f"socket:[{row.split()[9]}]" for kind in ("tcp", "tcp6", "udp", "udp6")
                for row in pathlib.Path(f"/proc/net/{kind}").read_text().splitlines()[1:]}
    assert sockets and not sockets & internet
    assert worker.stop() == 0 and not speech.fault.is_set()
    assert queue.value("SELECT (status, retry_count)::text FROM jobs WHERE job_type = 'transcribe'") == "(queued,0)"
    speech.fault.set()


def test_an_endpoint_that_fails_costs_no_job_its_retries(workers, queue, speech, spoken):
    """Whatever it answers, for as long as it does: then everything is transcribed."""
    videos = [put(workers, queue, spoken) for _ in range(2)]
    worker = workers.start("transcribe-worker", TRANSCRIBE_URL=speech.url, CORTANA_STORE_PROBE_MS="50")
    wait_until(lambda: speech.probes, "its start")
    speech.fault = (503, {"error": "warming up"})
    for video in videos:
        queue.run("SELECT transcribe_video(%s)", video)
    wait_until(lambda: worker.says("no job is claimed until it works"), "the worker to notice")
    for speech.fault in [(200, b"oops"), (429, b"", {"Retry-After": "0"}), (401, b""), ()]:
        before = speech.probes
        wait_until(lambda: speech.probes > before + 1, "another look at the endpoint")
    speech.fault = None
    finish(queue)
    assert [len(speech_of(queue, video)) for video in videos] == [2, 2]
    assert queue.value("SELECT max(retry_count) FROM jobs") == 0 and len(speech.requests) <= 4


class Recogniser(SpeechServer):
    """Hears sentences of English by pocketsphinx; each ends where there is a pause."""

    def __init__(self, folder):
        super().__init__(self.recognise)
        self.file = str(folder / "heard.wav")

    def recognise(self, samples):
        if not any(samples):
            return []
        with wave.open(self.file, "wb") as sound:
            sound.setparams((1, 2, RATE, 0, "NONE", ""))
            sound.writeframes(samples.tobytes())
        heard = subprocess.run(["pocketsphinx_continuous", "-infile", self.file, "-time", "yes", "-logfn", os.devnull], check=True,
                               capture_output=True, text=True).stdout
        segments = []
        for word, start, end in re.findall(r"^(\S+) ([\d.]+) ([\d.]+) [\d.]+$", heard, re.M):
            if word == "<s>":
                segments.append({"id": len(segments), "text": "", "start": 0, "end": 0})
            elif word[0] not in "<[+":  # silence and noises
                last = segments[-1]
                last["start"], last["end"] = float(start) if not last["text"] else last["start"], float(end)
                last["text"] += " " + word.partition("(")[0]
        return [segment for segment in segments if segment["text"]]


def say(path, text):
    """A file of a sentence that a synthesiser says, and when in it the sound begins and ends, in ms."""
    subprocess.run(["flite", "-voice", "kal16", "-t", text, "-o", path], check=True)
    with wave.open(str(path)) as sound:
        samples, rate = array.array("h", sound.readframes(sound.getnframes())), sound.getframerate()
    loud = [at for at, sample in enumerate(samples) if abs(sample) > 300]
    return loud[0] * 1000 / rate, loud[-1] * 1000 / rate


def test_spoken_sentences_are_found(workers, queue, tmp_path):
    """A voice and a recogniser in place of tones: words that were said are found, where they were said."""
    first, second = (say(tmp_path / name, text) for name, text in (
        ("a.wav", "the train to london leaves at seven thirty in the evening"), ("b.wav", "our next meeting is on wednesday afternoon")))
    film = tmp_path / "film.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-i", tmp_path / "a.wav", "-i", tmp_path / "b.wav", "-f", "lavfi", "-i", "color=size=64x64:rate=5:duration=12",
                    "-filter_complex", "[0]adelay=1500[a];[1]adelay=7000[b];[a][b]amix=normalize=0", "-preset", "ultrafast", film], check=True)
    video = put(workers, queue, film)
    server = Recogniser(tmp_path)
    queue.run("SELECT transcribe_video(%s)", video)
    worker = workers.start("transcribe-worker", TRANSCRIBE_URL=server.url)
    finish(queue)
    assert worker.stop() == 0
    server.close()
    for words, (begins, ends), at in (("train london evening", first, 1500), ("wednesday meeting", second, 7000)):
        (hit,) = queue.run("SELECT * FROM search_segments(%s)", f"source:speech {words}")
        assert hit["language"] == "eng" and abs(hit["t_start"] - at - begins) <= 300 and abs(hit["t_end"] - at - ends) <= 300, hit
    assert len(speech_of(queue, video)) == 2
