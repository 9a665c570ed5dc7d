"""Scanner, removal, gc and bucket rules on a real S3 server: what differs from a directory."""

import hashlib
import os
import uuid

import pytest
from scanning import Scanning, notification
from store_client import StoreClient
from workers import Workers, wait_until

OWNER = str(uuid.uuid4())
PART = 9 * 1000 * 1000  # more than one part


class BucketScanning(Scanning):
    """The same on a bucket; objects are put and listed by the store's own client."""

    def __init__(self, program, database, sql, server, bucket, client):
        super().__init__(program, database, sql, None)
        self.server, self.bucket, self.client = server, bucket, client

    def environment(self, **changes):
        return {**super().environment(), **self.server.environment(self.bucket),
                **{k: str(v) for k, v in changes.items()}}

    def put(self, key, data=b"video", **notes):
        named = {name.replace("_", "-"): value for name, value in notes.items()}
        self.client.put(key=key, text=data.decode(), metadata=named)

    def keys(self, prefix=""):
        return self.client.keys(prefix=prefix)


@pytest.fixture
def client(s3_server, program):
    made = []

    def make(bucket):
        made.append(StoreClient(program("store-commands"), s3_server.environment(bucket)))
        return made[-1]

    yield make
    for one in made:
        one.close_process()


@pytest.fixture
def bucket(request):
    return "test-" + hashlib.md5(request.node.nodeid.encode()).hexdigest()[:16]


@pytest.fixture
def scanning(program, database, sql, s3_server, bucket, client):
    made = BucketScanning(program, database, sql, s3_server, bucket, client(bucket))
    assert "is made" in made.run("bucket", "init", name="cortana")
    yield made
    made.end()


def test_a_bucket_gets_its_rules_and_keeps_those_of_others(scanning):
    foreign = ("<LifecycleConfiguration><Rule><ID>theirs</ID><Prefix>logs/</Prefix>"
               "<Status>Enabled</Status><Expiration><Days>9</Days></Expiration></Rule>"
               "</LifecycleConfiguration>")

    def rules():
        return scanning.client.bucket(method="GET", subresource="lifecycle")["body"]

    assert "<DaysAfterInitiation>2</DaysAfterInitiation>" in rules()
    assert rules().count("<Rule>") == 2 and "<Days>30</Days>" in rules()
    assert scanning.client.bucket(method="PUT", subresource="lifecycle", body=foreign)["status"] == 200
    log = scanning.run("bucket", "init", name="cortana", CORTANA_CLIP_DAYS=7)
    assert "was there" in log and "clips go after 7 days" in log
    scanning.run("bucket", "init", name="cortana", CORTANA_CLIP_DAYS=7)
    assert rules().count("<Rule>") == 3 and "theirs" in rules() and "<Days>9</Days>" in rules()
    assert "<Days>7</Days>" in rules() and "<Days>30</Days>" not in rules()


def test_browsers_may_use_a_bucket_and_other_sites_rules_stay(scanning):
    def sites():
        return scanning.client.bucket(method="GET", subresource="cors")["body"]

    assert "<AllowedOrigin>*</AllowedOrigin>" in sites() and "<AllowedMethod>PUT</AllowedMethod>" in sites()
    theirs = ("<CORSConfiguration><CORSRule><AllowedOrigin>https://example.org</AllowedOrigin>"
              "<AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>")
    assert scanning.client.bucket(method="PUT", subresource="cors", body=theirs)["status"] == 200
    scanning.run("bucket", "init", name="cortana")
    assert "https://example.org" in sites() and "<AllowedOrigin>*</AllowedOrigin>" not in sites()


def test_a_part_of_a_bucket_has_rules_and_notifications_of_its_own(scanning, client):
    scanning.bucket += "/a&b"
    scanning.client = client(scanning.bucket)
    for _ in range(2):
        assert "was there" in scanning.run("bucket", "init", name="cortana")
    rules = scanning.client.bucket(method="GET", subresource="lifecycle")["body"]
    assert rules.count("<Rule>") == 4
    assert "<Prefix>videos/clips/</Prefix>" in rules
    assert "<Prefix>a&amp;b/videos/clips/</Prefix>" in rules
    video = scanning.original()
    within = f"videos/original/{video}/master.mp4"
    bucket = scanning.bucket.partition("/")[0]
    scanning.run("--events", text=notification(within, bucket=bucket))
    assert scanning.videos() == {}
    scanning.run("--events", text=notification("a%26b/" + within, bucket=bucket))
    assert set(scanning.videos()) == {video}


def test_uploads_become_videos_and_duplicates_are_linked(scanning):
    video = scanning.original(owner_id=OWNER)
    scanning.put(f"inbox/{OWNER}/Schöne Zeit+%.mp4", b"same bytes")
    scanning.put(f"inbox/{OWNER}/again.mkv", b"same bytes")
    scanning.put("inbox/new line.mp4", b"other")
    running = [scanning.start() for _ in range(2)]
    outputs = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    videos = scanning.videos()
    assert {row["original_name"] for row in videos.values()} == \
        {None, "Schöne Zeit+%.mp4", "again.mkv", "new line.mp4"}
    assert sorted(row["status"] for row in videos.values()) == ["duplicate", "new", "new", "new"]
    assert str(videos[video]["owner_id"]) == OWNER and len(scanning.transcodes()) == 3
    assert scanning.keys() == sorted(row["s3_original_path"] for row in videos.values())
    assert scanning.uploads() == []


def test_large_uploads_move_whole_and_equal_ones_are_known_by_their_parts(scanning, tmp_path):
    data = os.urandom(2 * PART)
    path = tmp_path / "big.mp4"
    path.write_bytes(data)
    for name in ("one", "two"):
        scanning.client.put(key=f"inbox/{OWNER}/{name}.mp4", path=str(path))
    scanning.run()
    videos = list(scanning.videos().values())
    assert sorted(row["status"] for row in videos) == ["duplicate", "new"]
    for row in videos:
        head = scanning.client.head(key=row["s3_original_path"])
        assert head["size"] == row["original_size"] == len(data)
        assert head["etag"] == row["original_etag"]
        scanning.client.open(key=row["s3_original_path"])
        read = scanning.client.read(length=len(data), step=1 << 20)
        assert read["sha256"] == hashlib.sha256(data).hexdigest()


def test_notifications_name_the_bucket(scanning):
    video = scanning.original()
    other = scanning.original()
    scanning.run("--events", text=notification(f"videos/original/{video}/master.mp4",
                                               bucket=scanning.bucket)
                 + notification(f"videos/original/{other}/master.mp4", bucket="another"))
    assert set(scanning.videos()) == {video}


def test_overwritten_deleted_and_back(scanning):
    video = scanning.original(data=b"first")
    scanning.run()
    scanning.rows("SELECT * FROM claim_jobs('w', 'transcode')")
    scanning.original(video, data=b"other")
    scanning.run()
    assert scanning.video(video)["original_state"] == "replaced"
    scanning.client.delete(key=f"videos/original/{video}/master.mp4")
    scanning.run()
    assert scanning.video(video)["original_state"] == "missing"
    scanning.original(video, data=b"first")  # the ETag of the same bytes is the same here
    scanning.run()
    assert scanning.video(video)["original_state"] == "present"


def test_deletion_and_gc(scanning, program, database, tmp_path):
    workers = Workers(program, database, tmp_path)
    kept, gone = scanning.original(), scanning.original()
    scanning.run()
    for video in (kept, gone):
        scanning.client.upload(prefix=f"frames/{video}/", count=1203, size=1)
        scanning.client.put(key=f"videos/proxy/{video}/a/segment_00000.ts", text="x")
    lost = str(uuid.uuid4())
    scanning.client.put(key=f"thumbs/{lost}/poster.jpg", text="x")
    scanning.rows("SELECT delete_video(%s)", gone)
    workers.start("object-remove-worker", **scanning.server.environment(scanning.bucket))
    try:
        wait_until(lambda: scanning.rows("SELECT 1 FROM object_removals WHERE finished_at IS NOT NULL"),
                   "the objects to be removed")
    finally:
        workers.end()
    assert not [key for key in scanning.keys() if gone in key]
    assert scanning.value("SELECT objects FROM object_removals") == 1205
    found = scanning.run("gc", "--remove", "--min-age", "0", name="cortana")
    assert f"thumbs/{lost}/poster.jpg" in found
    assert len(scanning.keys()) == 1205 and all(kept in key for key in scanning.keys())
