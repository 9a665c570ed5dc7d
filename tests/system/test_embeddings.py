"""The embed stage and search by meaning, against a small HTTP server with known vectors."""

import functools
import json
import math
import random
import uuid

import psycopg2
import pytest
from embedding_server import EmbeddingServer, vector
from test_row_security import ALICE, BOB
from workers import wait_until

MODEL = "words-64"


def unit(numbers):
    length = math.sqrt(sum(n * n for n in numbers))
    return [n / length for n in numbers]


class Library:
    def __init__(self, queue):
        self.queue = queue

    def add(self, lines, owner=None, language="eng"):
        video = self.queue.video(owner)
        self.queue.write_text(video, lines, language=language)
        return video

    def search(self, text, model=MODEL, **named):
        arguments = "".join(f", {name} => %s" for name in named)
        return self.queue.run(f"SELECT * FROM search_semantic(%s::real[], %s{arguments})",
                              unit(vector(text)), model, *named.values())

    def texts(self, text, **named):
        return [row["text"] for row in self.search(text, **named)]


@pytest.fixture(params=["openai", "ollama"])
def server(request):
    started = EmbeddingServer(request.param)
    yield started
    started.close()


@pytest.fixture
def one_server():
    started = EmbeddingServer()
    yield started
    started.close()


@pytest.fixture
def library(queue):
    return Library(queue)


def embed(workers, video, server, model=MODEL, **environment):
    """The stage alone; (exit status, result, what it said)."""
    done = workers.once({"video_id": str(video), "model": model}, name="embed-worker",
                        EMBED_URL=server.url, **environment)
    result = json.loads(done.stdout) if done.stdout else {}
    result.pop("artifacts", None)
    return done.returncode, result, done.stderr


def test_texts_are_embedded_once_and_found_by_meaning(library, server, workers, queue):
    first = library.add(["Where to have dinner tonight", "A red car", "Call the doctor", "A red car"])
    second = library.add(["a red car", "Rain in the afternoon"])
    assert embed(workers, first, server)[:2] == (0, {"model": MODEL, "embedded": 3})
    assert embed(workers, second, server)[:2] == (0, {"model": MODEL, "embedded": 1}), \
        "the car's vector is there already"
    assert embed(workers, second, server)[:2] == (0, {"model": MODEL, "embedded": 0})
    assert sorted(server.texts()) == ["A red car", "Call the doctor", "Rain in the afternoon",
                                      "Where to have dinner tonight"]

    assert library.texts("physician", max_results=1) == ["Call the doctor"]
    assert library.texts("supper", max_results=1) == ["Where to have dinner tonight"]
    hits = library.search("automobile red", max_results=3)
    assert [row["text"].lower() for row in hits] == ["a red car"] * 3
    assert [row["match_kind"] for row in hits] == ["meaning"] * 3
    assert hits[0]["rank"] > 0.7
    assert [row["video_id"] for row in library.search("automobile red", video=second, max_results=1)] \
        == [second]


def test_a_long_video_is_asked_for_in_batches(library, one_server, workers, queue):
    video = library.add([f"line number {i}" for i in range(120)])
    assert embed(workers, video, one_server)[:2] == (0, {"model": MODEL, "embedded": 120})
    assert [len(request["input"]) for request, _ in one_server.requests] == [50, 50, 20]
    lengths = queue.value("SELECT array_agg(DISTINCT round(embedding_cosine(embedding, embedding)"
                          "::numeric, 4)) FROM text_embeddings")
    assert [float(n) for n in lengths] == [1.0]


def test_what_was_embedded_is_kept_when_the_attempt_fails(library, one_server, workers, queue):
    video = library.add([f"line number {i}" for i in range(120)])
    one_server.faults = [lambda h: h.tell_json(200, {"embeddings": [
        vector(f"{i}") for i in range(50)]}), lambda h: h.tell_json(503, {"error": "busy"})]
    assert embed(workers, video, one_server)[0] == 75
    assert queue.value("SELECT count(*) FROM text_embeddings") == 50
    assert embed(workers, video, one_server)[:2] == (0, {"model": MODEL, "embedded": 70})


@pytest.mark.parametrize("status, body, code, words", [
    (401, {"error": {"message": "bad key"}}, 65, "401 bad key"),
    (404, {"error": "model 'x' not found"}, 78, "404 model 'x' not found"),
    (429, {"error": {"message": "slow down"}}, 75, "429 slow down"),
    (500, b"<html>", 75, "refuses model"),
    (200, b"no json", 75, "answers no JSON"),
    (200, {"data": []}, 75, "first vector has 0 numbers"),
    (200, {"embeddings": [[1, 2]]}, 75, "gives 0 numbers for text 1"),
    (200, {"embeddings": [[1, 2], [1, 2, 3]]}, 75, "gives 3 numbers for text 1"),
    (200, {"embeddings": [[1, "x"], [1, 2]]}, 75, "not a number"),
    (200, {"embeddings": [[0, 0], [1, 2]]}, 75, "has length 0"),
    (200, b'{"embeddings": [[1e308, 1e308], [1, 2]]}', 75, "has length 0"),
])
def test_what_an_endpoint_may_say(library, one_server, workers, queue, status, body, code, words):
    video = library.add(["one text", "another"])
    one_server.faults = [lambda handler: handler.tell_json(status, body)]
    got, _, said = embed(workers, video, one_server)
    assert words in said
    assert got == code
    assert queue.value("SELECT count(*) FROM text_embeddings") == 0


def test_a_redirect_gets_no_key(library, one_server, workers):
    other = EmbeddingServer()
    video = library.add(["a text"])
    one_server.faults = [lambda handler: handler.tell_json(307, {}, {"Location": other.url})]
    code, _, said = embed(workers, video, one_server, EMBED_API_KEY="s3cr3t-key")
    assert code == 78 and "307" in said and "s3cr3t-key" not in said
    assert other.requests == []
    assert one_server.requests[0][1]["Authorization"] == "Bearer s3cr3t-key"
    other.close()


@pytest.mark.parametrize("url, words", [
    (None, "EMBED_URL is not set"), ("ftp://127.0.0.1/x", "not an http or https URL"),
    ("http://user:pass@127.0.0.1/x", "a user's name"), ("nonsense", "EMBED_URL is not an http")])
def test_a_worker_without_an_endpoint_claims_nothing(workers, queue, url, words):
    job = queue.add("embed", {"video_id": str(queue.video()), "model": MODEL})
    worker = workers.start("embed-worker", EMBED_URL=url)
    assert worker.wait() == 78
    assert words in worker.log_path.read_text()
    assert "pass@" not in worker.log_path.read_text()
    assert queue.status(job) == "queued"


def test_a_model_that_changes_its_length_is_refused(library, one_server, workers):
    assert embed(workers, library.add(["a text"]), one_server)[0] == 0
    one_server.dimensions = 32
    code, _, said = embed(workers, library.add(["another"]), one_server)
    assert code == 65 and "returned vectors of 32 numbers, but its earlier vectors have 64" in said


@pytest.mark.parametrize("payload", [{"model": 7}, {"model": ""}, {"model": "x" * 101},
                                     {"model": "a'; DROP TABLE jobs; --"}])
def test_hostile_model_names(library, one_server, workers, queue, payload):
    video = library.add(["a text"])
    done = workers.once({"video_id": str(video), **payload}, name="embed-worker",
                        EMBED_URL=one_server.url)
    assert done.returncode == 65
    assert queue.value("SELECT count(*) FROM embedding_models") == 0


def test_the_pipeline_embeds_when_it_is_told_to(queue, library, jobs, workers, one_server):
    before = queue.value("SELECT version FROM workflows WHERE name = 'video_pipeline' AND is_active")
    assert queue.value("SELECT embed_videos_with(%s)", MODEL) == before + 1
    assert queue.value("SELECT embed_videos_with(%s)", MODEL) == before + 1, "nothing to change"
    steps = queue.value("SELECT steps FROM workflows WHERE name = 'video_pipeline' AND is_active")
    assert steps[-1] == {"key": "embed", "job_type": "embed", "depends_on": ["segment_index"],
                         "params": {"model": MODEL}}
    video = library.add(["Where to have dinner tonight"])
    assert queue.value("SELECT embed_videos()") == 1
    assert queue.value("SELECT embed_videos()") == 1
    worker = workers.start("embed-worker", EMBED_URL=one_server.url)
    (job,) = jobs.rows("SELECT id FROM jobs WHERE job_type = 'embed'")
    job = jobs.wait_for(job["id"], "done", "failed")
    assert (job["status"], job["result"], job["video_id"]) == \
        ("done", {"model": MODEL, "embedded": 1}, video)
    assert queue.value("SELECT embed_videos()") == 0
    assert worker.stop() == 0
    assert queue.value("SELECT embed_videos_with(NULL)") == before + 2
    assert queue.value("SELECT embedding_model_in_use()") is None
    with pytest.raises(psycopg2.Error, match="no model is in use"):
        queue.run("SELECT embed_videos()")


def test_readers_find_what_is_theirs_however_much_others_have(queue, library, one_server, workers):
    others = library.add([f"a red car {i}" for i in range(300)], BOB)
    own = library.add(["the physician", "blue car"], ALICE)
    for video in (others, own):
        assert embed(workers, video, one_server)[0] == 0
    queue.run("SELECT set_config('request.jwt.claims', %s, false)", json.dumps({"sub": str(ALICE)}))
    queue.run("SET ROLE authenticated")
    assert library.texts("red car", max_results=2) == ["blue car", "the physician"]
    for statement in ("SELECT * FROM text_embeddings",
                      f"SELECT nearest_texts('{MODEL}', '{{1}}', 1)",
                      "SELECT texts_to_embed(gen_random_uuid(), 'm', 1)",
                      "SELECT store_embeddings('m', '[]')", "SELECT embed_videos_with('m')",
                      "SELECT prune_embeddings()", "SELECT embed_videos()"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            queue.run(statement)


def test_fields_narrow_a_search_by_meaning_down(queue, library, one_server, workers):
    for language in ("eng", "deu"):
        video = library.add([f"dinner {language}"], language=language)
        assert embed(workers, video, one_server)[0] == 0
    assert library.texts("supper", filter="lang:deu") == ["dinner deu"]
    assert sorted(library.texts("supper")) == ["dinner deu", "dinner eng"]
    with pytest.raises(psycopg2.Error, match="a filter has fields alone"):
        library.texts("supper", filter="lang:deu word")
    with pytest.raises(psycopg2.Error, match="there are no embeddings of model nobody"):
        library.texts("supper", model="nobody")


def test_vectors_of_texts_that_are_gone_are_forgotten(queue, library, one_server, workers):
    video = library.add(["goes away", "stays"])
    stays = library.add(["stays"])
    assert embed(workers, video, one_server)[0] == 0
    queue.run("DELETE FROM videos WHERE id = %s", video)
    assert queue.value("SELECT prune_embeddings()") == 1
    assert library.texts("stays") == ["stays"]
    assert queue.value("SELECT count(*) FROM segments WHERE video_id = %s", stays) == 1


def test_preselection_by_signs_finds_the_nearest(queue):
    """Among 3,000 random vectors of 256 numbers, the one nearest to the question comes first."""
    dice = random.Random(7)
    vectors = [unit([dice.gauss(0, 1) for _ in range(256)]) for _ in range(3000)]
    queue.run("SELECT store_embeddings('noise', %s)", json.dumps(
        [{"text_hash": str(i), "embedding": numbers} for i, numbers in enumerate(vectors)]))
    for i in range(20):
        question = unit([n + dice.gauss(0, 0.05) for n in vectors[i]])  # as far as it is long
        (best, *_) = queue.run("SELECT * FROM nearest_texts('noise', %s::real[], 5)", question)
        exact = sum(a * b for a, b in zip(question, vectors[i]))
        assert (best["text_hash"], round(best["similarity"], 3)) == (str(i), round(exact, 3))


def test_the_command(library, one_server, workers, queue, cortana):
    video = library.add(["Where to have dinner tonight", "A red car"])

    cortana = functools.partial(cortana, EMBED_URL=one_server.url)
    assert "no model is in use" in cortana("search", "--semantic", "supper").stderr
    assert "from the next run on" in cortana("embeddings", "use", MODEL).stdout
    assert "1 job" in cortana("embeddings", "add", "--all").stdout
    worker = workers.start("embed-worker", EMBED_URL=one_server.url)
    wait_until(lambda: queue.value("SELECT count(*) FROM text_embeddings") == 2, "the vectors")
    assert worker.stop() == 0
    listed = cortana("embeddings").stdout
    assert MODEL in listed and "in the pipeline" in listed
    text = cortana("search", "--semantic", "supper", "--limit", "1").stdout
    assert "dinner tonight" in text and "meaning" in text
    hits = [json.loads(line) for line in cortana("search", "--semantic", "--json", "automobile", "--video",
                                                 str(video)).stdout.splitlines()]
    assert [hit["text"] for hit in hits] == ["A red car", "Where to have dinner tonight"]
    assert "belong to --semantic" in cortana("search", "x", "--filter", "lang:deu").stderr
    assert "not" in cortana("search", "--semantic", "x", "--model", str(uuid.uuid4())).stderr \
        or cortana("search", "--semantic", "x", "--model", "unknown").returncode != 0
    assert cortana("embeddings", "off").returncode == 0
