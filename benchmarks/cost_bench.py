#!/usr/bin/python3
"""What an hour of video costs: cost_bench.py BUILD FIXTURES

A feed, a chat and subtitles go through the pipeline, each beside the `ffmpeg` commands for the same products in the
same round: CPU time by stage, bytes by kind, objects, and rows with their bytes without indexes, all for an hour of
video. Peers of `transcode` are five commands, one a product (three HLS renditions with sound, a poster, a sheet of small pictures), with our
encoder settings, key frames and segments; of `sample`, ten pictures a second written as JPEG.

CORTANA_BENCH_CORE_HOUR_USD=0.05     what an hour of CPU time costs you; large clouds ask about this for a virtual core
CORTANA_BENCH_ROUNDS=1     medians over so many rounds, for the CPU time of both sides
CORTANA_BENCH_VIDEOS=…     files divided by colons, instead of the fixtures
"""
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "system")]

import psycopg2  # noqa: E402
from jobs import STAGES  # noqa: E402
from pipeline import Pipeline  # noqa: E402
from private_cluster import PrivateCluster  # noqa: E402

BUILD, FIXTURES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
ROUNDS = int(os.environ.get("CORTANA_BENCH_ROUNDS", "1"))
VIDEOS = [pathlib.Path(path) for path in os.environ.get("CORTANA_BENCH_VIDEOS", "").split(":") if path] or [
    FIXTURES / f"{name}.mp4" for name in ("feed", "chat", "subtitles")]
THREADS = "2"
RATES = {1080: 12000, 720: 6500, 480: 2500, 360: 1200, 240: 600}  # kbit/s at most, by short side
RENDITIONS = 3
CORE_HOUR_USD = float(os.environ.get("CORTANA_BENCH_CORE_HOUR_USD", "0.05"))
# An hour of video at public prices: Google's text detection (0.15 a minute) and a rendition of AWS MediaConvert (0.015 a minute).
# Storage, traffic and search are in none of the prices.
GOOGLE_TEXT_USD, MEDIACONVERT_RENDITION_USD = 9.00, 0.90
INTERVAL_S = 1  # between small pictures, as the worker chooses for clips this short
KINDS = {"videos/original": "original", "videos/proxy": "renditions", "thumbs": "posters, sprites",
         "frames": "frames", "lines": "packs of lines"}

VIDEO = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-profile:v", "high", "-pix_fmt",
         "yuv420p", "-g", "600", "-bf", "0", "-sc_threshold", "0", "-forced-idr", "1", "-force_key_frames",
         "expr:gte(t,n_forced*2)", "-fps_mode", "passthrough", "-enc_time_base", "1:90000", "-threads", THREADS]
SOUND = ["-c:a", "aac", "-b:a", "128k", "-ar", "48000", "-ac", "2"]
HLS = ["-f", "hls", "-hls_time", "4", "-hls_playlist_type", "vod"]


class Source:
    def __init__(self, path):
        self.path, self.name = path, path.stem
        probed = json.loads(subprocess.run(
            ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries",
             "stream=width,height:format=duration", "-of", "json", path],
            check=True, stdout=subprocess.PIPE, text=True).stdout)
        self.width, self.height = (probed["streams"][0][side] for side in ("width", "height"))
        self.hours = float(probed["format"]["duration"]) / 3600
        self.sides = [side for side in RATES if side <= min(self.width, self.height)][:RENDITIONS]


def used_by(command, text="", **options):
    """What one command and those that it waited for used."""
    command = [str(word) for word in command]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, **options) as process:
        process.stdin.write(text)
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if status != 0:
        sys.exit(f"{' '.join(command)} failed")
    return usage


def seconds(usage):
    return usage.ru_utime + usage.ru_stime


def ffmpeg(*words):
    """CPU seconds of one command."""
    return seconds(used_by(["ffmpeg", "-nostdin", "-v", "error", "-y", *words]))


def transcode(path, renditions, folder):
    """What transcode used for the renditions of these short sides."""
    video = str(uuid.uuid4())
    key = f"videos/original/{video}/master.mp4"
    (folder / key).parent.mkdir(parents=True)
    (folder / key).write_bytes(path.read_bytes())
    return used_by([BUILD / "workers" / "transcode" / "transcode-worker", "--once", "--threads", THREADS],
                   json.dumps({"video_id": video, "s3_original_path": key, "renditions": renditions}),
                   env={**os.environ, "STORE_URL": f"dir:{folder}"})


def five_commands(source, folder):
    """CPU seconds, and bytes of the renditions."""
    upright = source.height > source.width
    seconds = 0
    for side in source.sides:
        scale = f"{side}:-2" if upright else f"-2:{side}"
        rate = RATES[side]
        seconds += ffmpeg("-i", source.path, "-vf", f"scale={scale}", *VIDEO, "-maxrate", f"{rate}k", "-bufsize",
                          f"{2 * rate}k", *SOUND, *HLS, folder / f"{side}.m3u8")
    seconds += ffmpeg("-i", source.path, "-vf", "thumbnail,scale=720:-2", "-frames:v", "1", folder / "poster.jpg")
    size = sum(path.stat().st_size for path in folder.glob("*.ts"))
    small = "108:192" if upright else "192:108"
    return seconds + ffmpeg("-i", source.path, "-vf", f"fps=1/{INTERVAL_S},scale={small},tile=10x10", "-frames:v", "1",
                            folder / "sprite.jpg"), size


def ten_pictures_a_second(source, folder):
    return ffmpeg("-i", source.path, "-vf", "fps=10", "-q:v", "3", folder / "%d.jpg")


class Bench:
    def __init__(self, conninfo, folder):
        self.sql = psycopg2.connect(conninfo)
        self.sql.autocommit = True
        store = folder / "store"
        store.mkdir()
        self.pipeline = Pipeline(lambda name: next(BUILD.glob(f"workers/*/{name}")), conninfo, self.sql, store, folder)
        self.folder = folder
        self.tables = [name for name, in self.pipeline.query(
            "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace IN"
            " ('public'::regnamespace, 'cortana'::regnamespace)")]

    def rows(self):
        """Rows and their bytes, without indexes, of every table."""
        return collections.Counter({
            (table, unit): value for table in self.tables for unit, value in zip(("rows", "bytes"), self.pipeline.query(
                f"SELECT count(*), coalesce(sum(pg_column_size(t.*)), 0)::bigint FROM {table} t")[0])})

    def bytes_and_objects(self, video):
        sizes, count = collections.Counter(), 0
        for path in self.pipeline.store.rglob("*"):
            key = str(path.relative_to(self.pipeline.store))
            kind = next((kind for prefix, kind in KINDS.items() if key.startswith(prefix)), None)
            if kind and f"/{video}/" in key and path.is_file():
                sizes[kind] += path.stat().st_size
                count += 1
        return sizes, count

    def thin_frames(self):
        """A day later, when the scanner has left the frames that lines are shown with."""
        self.pipeline.query("UPDATE cortana.frames_to_thin SET read_at = now() - interval '25 hours'")
        subprocess.run([self.pipeline.program("scanner-worker")], env=self.pipeline.environment, check=True,
                       stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def run_video(self, source):
        """The id of a video that went through the pipeline, and the CPU seconds of each stage."""
        video = self.pipeline.submit(source.path)
        if self.pipeline.wait(video) != "ready":
            sys.exit(f"{source.name}: {self.pipeline.failures()}")
        return video, dict(self.pipeline.query(
            "SELECT job_type, sum(cpu_seconds) FROM job_attempts a JOIN jobs j ON j.id = job_id"
            " WHERE video_id = %s GROUP BY 1", video))


def tell(name, unit, mine, theirs=None, peer=None, goal=None, suite="cost"):
    print(json.dumps({"suite": suite, "name": name, "unit": unit, "ours": mine, "peer": theirs, "peer_name": peer,
                      "ratio": theirs and mine / theirs, "goal": goal, "better": "lower"}), flush=True)


def one_round(bench, source):
    """CPU seconds of both sides, one after the other, and the id of the video."""
    video, ours = bench.run_video(source)
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        folder = pathlib.Path(folder)
        asked = seconds(transcode(source.path, source.sides, folder))
        five, size = five_commands(source, folder)
        return video, {**ours, "asked": asked, "five": five, "five's bytes": size,
                       "ten": ten_pictures_a_second(source, folder)}


def tell_cpu(source, rounds):
    cpu = {side: statistics.median(one[side] for one in rounds) / source.hours for side in rounds[0]}
    peers = {"transcode": (cpu["five"], "ffmpeg, 5 commands", 0.35), "sample": (cpu["ten"], "ffmpeg fps=10", 0.6)}
    for stage in STAGES:
        tell(f"{source.name}: {stage}", "CPU s", cpu[stage], *peers.get(stage, ()))
    sides = ", ".join(str(side) for side in source.sides)
    tell(f"{source.name}: transcode to {sides}", "CPU s", cpu["asked"], cpu["five"], "ffmpeg, 5 commands", 0.6)
    tell(f"{source.name}: all stages", "CPU s", sum(cpu[stage] for stage in STAGES))
    price = {name: cpu_seconds / 3600 * CORE_HOUR_USD for name, cpu_seconds in (
        ("text", sum(cpu[stage] for stage in STAGES if stage != "transcode")), ("renditions", cpu["asked"]))}
    tell(f"{source.name}: price of text", "USD", price["text"], GOOGLE_TEXT_USD, "Google text detection")
    tell(f"{source.name}: price of {len(source.sides)} renditions", "USD", price["renditions"],
         len(source.sides) * MEDIACONVERT_RENDITION_USD, "AWS MediaConvert")


def tell_rows(source, before, after):
    new = after - before
    for kind, unit, scale in (("rows", "rows", 1), ("bytes", "MB", 1e6)):
        tell(f"{source.name}: rows of all tables", unit,
             sum(count for key, count in new.items() if key[1] == kind) / source.hours / scale)
    largest = sorted((name for name, unit in new if unit == "bytes"), key=lambda name: -new[name, "bytes"])[:4]
    for table in largest:
        tell(f"{source.name}: rows of {table}", "rows", new[table, "rows"] / source.hours)
        tell(f"{source.name}: rows of {table}", "MB", new[table, "bytes"] / source.hours / 1e6)


def cost(bench, source):
    before = bench.rows()
    video, first = one_round(bench, source)
    after = bench.rows()
    tell_cpu(source, [first] + [one_round(bench, source)[1] for _ in range(ROUNDS - 1)])
    sizes, objects = bench.bytes_and_objects(video)
    tell(f"{source.name}: frames, for a day", "MB", sizes["frames"] / source.hours / 1e6)
    tell(f"{source.name}: objects, for a day", "objects", objects / source.hours)
    bench.thin_frames()
    sizes, objects = bench.bytes_and_objects(video)
    for kind in KINDS.values():
        peer = (first["five's bytes"] / source.hours / 1e6, "ffmpeg, 5 commands") if kind == KINDS["videos/proxy"] else ()
        tell(f"{source.name}: {kind}", "MB", sizes[kind] / source.hours / 1e6, *peer)
    tell(f"{source.name}: objects", "objects", objects / source.hours)
    tell_rows(source, before, after)


def main():
    with PrivateCluster(BUILD) as cluster, tempfile.TemporaryDirectory(prefix="cortana-cost-bench-") as folder:
        bench = Bench(cluster.migrated_database(), pathlib.Path(folder))
        bench.pipeline.start(*STAGES)
        try:
            for path in VIDEOS:
                cost(bench, Source(path))
        finally:
            bench.pipeline.stop()
            bench.sql.close()


if __name__ == "__main__":
    main()
