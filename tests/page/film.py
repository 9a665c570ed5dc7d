"""A short video whose one line of text is a white bar that rises evenly, so that where it is in a frame can be seen."""

import json
import subprocess

from api import ALICE
from media_tools import Stage

WIDTH, HEIGHT, SECONDS, RATE = 640, 360, 6, 25
BAR = {"x": 120, "width": 400, "height": 32}
FROM_Y, TO_Y = 280, 40
CROP = (400, 32)  # the size of the line's picture
FILM = "0f0e0d0c-0000-4000-8000-00000000f11a"
TEXT = "the quick harbour @anna"


def bar_y(ms):
    return FROM_Y + (TO_Y - FROM_Y) * ms / (SECONDS * 1000)


def add_film(queue, worker, store):
    """Makes it, has it transcoded, and returns its id."""
    stage = Stage(worker, store)
    stage.video_id = FILM
    source = store / "film.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"color=c=0x203040:s={WIDTH}x{HEIGHT}:r={RATE}:d={SECONDS}",
                    "-f", "lavfi", "-i", f"color=c=white:s={BAR['width']}x{BAR['height']}:r={RATE}:d={SECONDS}",
                    "-filter_complex", f"overlay=x={BAR['x']}:y='{FROM_Y}+({TO_Y - FROM_Y})*t/{SECONDS}':shortest=1:format=yuv444",
                    "-pix_fmt", "yuv420p", str(source)], check=True)
    key = stage.put_original(source)
    source.unlink()
    code, result = stage.run(s3_original_path=key)
    assert code == 0, result
    queue.run("INSERT INTO videos (id, owner_id, title, original_name, s3_original_path, s3_proxy_path, s3_thumb_path, status,"
              " duration, fps, resolution) VALUES (%s, %s, 'A bar that rises', 'film.mp4', %s, %s, %s, 'ready', %s, %s, %s)",
              stage.video_id, ALICE, key, result["s3_proxy_path"], result["s3_thumb_path"], SECONDS, RATE,
              f"{WIDTH}x{HEIGHT}")
    other = {"text": "another line", "normalized_text": "another line", "language": "eng", "confidence": 0.7,
             "bounding_box": {"x": 4, "y": 4, "width": 60, "height": 12}, "entities": []}
    rising = {**other, "text": TEXT, "normalized_text": TEXT, "confidence": 0.95, "t_start": 0, "t_end": SECONDS * 1000,
              "bounding_box": {**BAR, "y": FROM_Y}, "end_box": {**BAR, "y": TO_Y}, "track": [0, BAR["x"], FROM_Y, SECONDS * 1000, 0, TO_Y - FROM_Y],
              "entities": [{"type": "mention", "value": "@anna"}]}
    lines = [rising, *({**other, "t_start": n * 150, "t_end": n * 150 + 140} for n in range(40))]
    queue.run("SELECT replace_video_text(%s, %s)", stage.video_id, json.dumps(lines))
    add_pictures(queue, stage.video_id, store)
    return stage.video_id


def add_pictures(queue, video, store):
    """The picture of the rising line, in a pack behind something else, and a frame that was kept."""
    made = [subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"color=c=white:s={size[0]}x{size[1]}", "-frames:v", "1",
                            "-f", "image2pipe", "-c:v", codec, "-"], check=True, capture_output=True).stdout
            for size, codec in ((CROP, "png"), ((WIDTH, HEIGHT), "mjpeg"))]
    pack, frame = f"lines/{video}/0.pack", f"frames/{video}/0.jpg"
    for key, data in ((pack, b"something" + made[0]), (frame, made[1])):
        store.joinpath(key).parent.mkdir(parents=True, exist_ok=True)
        store.joinpath(key).write_bytes(data)
    queue.run("UPDATE segments SET crop_pack = %s, crop_offset = 9, crop_bytes = %s WHERE video_id = %s AND text = %s",
              pack, len(made[0]), video, TEXT)
    queue.run("INSERT INTO kept_frames (video_id, t_ms, t_start, t_end, key) VALUES (%s, 0, 0, %s, %s)", video, SECONDS * 1000, frame)
