#!/usr/bin/python3
"""Draws docs/result.png: a frame of a video with the lines that were found on it, beside their text.

usage: make_picture.py VIDEO EXPORT.json TIME_MS OUT.png      needs python3-pil, ffmpeg, fonts-dejavu-core
"""
import json
import subprocess
import sys
import tempfile

from PIL import Image, ImageDraw, ImageFont

FONTS = "/usr/share/fonts/truetype/dejavu/"
COLOURS = {"mention": "#1d6fd1", "hashtag": "#8a3ffc", "url": "#007d79", "number": "#b28600", "emoji": "#d12771"}
HEIGHT, PANEL, ROW = 960, 980, 40


def clock(ms):
    return f"{ms // 60000}:{ms // 1000 % 60:02d}.{ms % 1000:03d}"


def main(video, export_path, time_ms, out):
    export = json.load(open(export_path))
    with tempfile.NamedTemporaryFile(suffix=".png") as frame:
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-ss", f"{time_ms / 1000}", "-i", video,
                        "-frames:v", "1", frame.name], check=True)
        picture = Image.open(frame.name).convert("RGB")
    scale = HEIGHT / picture.height
    picture = picture.resize((round(picture.width * scale), HEIGHT), Image.LANCZOS)
    sheet = Image.new("RGB", (picture.width + PANEL, HEIGHT), "#fbfbfa")
    sheet.paste(picture, (0, 0))
    draw = ImageDraw.Draw(sheet, "RGBA")
    text_font = ImageFont.truetype(FONTS + "DejaVuSans.ttf", 19)
    time_font = ImageFont.truetype(FONTS + "DejaVuSansMono.ttf", 14)

    shown = sorted((s for s in export["segments"] if s["t_start"] <= time_ms < s["t_end"]),
                   key=lambda s: s["bounding_box"]["y"])
    y = 24
    for segment in shown[: HEIGHT // ROW]:
        draw.text((picture.width + 28, y + 4), f"{clock(segment['t_start'])} – {clock(segment['t_end'])}",
                  font=time_font, fill="#888888")
        draw.text((picture.width + 226, y), segment["text"], font=text_font, fill="#161616")
        entities = [e for e in export["entities"] if e["segment_id"] == segment["id"]]
        x = picture.width + 250 + draw.textlength(segment["text"], font=text_font)
        for entity in entities:
            width = draw.textlength(entity["type"], font=time_font)
            if x + width > sheet.width - 12:
                break
            colour = COLOURS[entity["type"]]
            draw.rounded_rectangle((x - 6, y + 1, x + width + 6, y + 23), 6, outline=colour)
            draw.text((x, y + 4), entity["type"], font=time_font, fill=colour)
            x += width + 20
        y += ROW
    sheet.save(out, optimize=True)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
