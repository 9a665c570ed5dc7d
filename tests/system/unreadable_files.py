"""Files that cannot be read as videos, and the sentence that says of each what it is and what to do."""
import io
import struct
import zipfile

from media_tools import make_clip

PICTURES = "-f lavfi -i testsrc=s=64x48:r=10:d=1"
ONLY_VIDEOS = "only videos can be read"
AGAIN = "copy or download it again"
KEYS = "00112233445566778899aabbccddeeff"


def zipped():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("video.mp4", b"\0" * 500)
    return stream.getvalue()


def boxes(path):
    """Type, begin and end of the boxes of an MP4."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        yield kind.decode(), at, at + size
        at += size


def make_unreadable_files(folder):
    """Makes the files, all called .mp4, as a scanner takes them; returns {name: the sentence}."""
    sentences = {}

    def add(name, data, sentence):
        path = folder / name
        if isinstance(data, str):
            make_clip(path, data)
        else:
            path.write_bytes(data)
        named = path if name.endswith(".mp4") else path.rename(f"{path}.mp4")
        sentences[named.name] = sentence

    whole = make_clip(folder / "whole.mp4", f"{PICTURES} -c:v libx264")
    add("no_index.mp4", whole.read_bytes()[:whole.stat().st_size // 3],
        f"the file was cut off: its index (moov) is missing; {AGAIN}")
    whole = make_clip(folder / "whole.mp4", f"{PICTURES} -c:v libx264 -movflags faststart")
    parts = {kind: (begin, end) for kind, begin, end in boxes(whole)}
    add("index_cut.mp4", whole.read_bytes()[:parts["moov"][1] - 100],
        f"the file was cut off in its index (moov); {AGAIN}")
    add("partial.mp4", whole.read_bytes()[:parts["mdat"][0] + 8],
        f"the file ends early: its index promises more than is there; {AGAIN}")
    whole = make_clip(folder / "whole.mp4", f"{PICTURES} -c:v libx264 -movflags frag_keyframe+empty_moov")
    parts = {kind: (begin, end) for kind, begin, end in boxes(whole)}
    add("segment.m4s", whole.read_bytes()[parts["moof"][0]:],
        "the file is a part of a stream, without its beginning (moov); give the whole video")
    add("init.mp4", whole.read_bytes()[:parts["moof"][0]],
        "the file is the beginning of a stream (moov), without its pictures; give the whole video")
    whole.unlink()
    encrypted = "the video is encrypted and cannot be read without its key; give a copy without protection"
    add("encrypted.mp4", f"{PICTURES} -c:v libx264 -encryption_scheme cenc-aes-ctr -encryption_key {KEYS} "
        f"-encryption_kid {KEYS}", encrypted)
    for name, kind in (("a.png", "PNG"), ("a.jpg", "JPEG"), ("a.bmp", "BMP"), ("a.tiff", "TIFF"), ("a.webp", "WebP")):
        add(name, f"{PICTURES} -frames:v 1", f"the file is a still picture ({kind}), not a video; {ONLY_VIDEOS}")
    add("moving.webp", f"{PICTURES} -c:v libwebp_anim",
        "the file is an animated WebP, which cannot be read here; convert it to GIF, APNG or MP4")
    add("a.m4a", "-f lavfi -i sine=d=1 -c:a aac", f"the file has only sound (aac), no pictures; {ONLY_VIDEOS}")
    add("a.mp3", "-f lavfi -i sine=d=1 -f lavfi -i testsrc=s=64x48:d=1 -frames:v 1 -map 0 -map 1 -c:v png "
        "-disposition:v attached_pic", f"the file has only sound (mp3), no pictures; {ONLY_VIDEOS}")
    add("a.aiff", "-f lavfi -i sine=d=1", f"the file has only sound (AIFF), no pictures; {ONLY_VIDEOS}")
    page = ("the file is a web page (HTML), not a video: perhaps that of a sign-in or of an error; "
            "download the video again")
    add("sign_in.mp4", b"\n<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n", page)
    add("archive.mp4", zipped(), "the file is an archive (ZIP), not a video; unpack it and give the videos in it")
    add("document.mp4", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", f"the file is a document (PDF), not a video; {ONLY_VIDEOS}")
    add("program.mp4", b"\x7fELF\2\1\1" + bytes(200), f"the file is a program (ELF), not a video; {ONLY_VIDEOS}")
    add("text.mp4", "Grüße,\nthis is a letter.\n".encode() * 50, f"the file is text (plain), not a video; {ONLY_VIDEOS}")
    add("error.mp4", b'{"error": "not found"}\n', f"the file is text (JSON), not a video; {ONLY_VIDEOS}")
    add("list.m3u8", b"#EXTM3U\n#EXTINF:1,\nhttp://example.org/a.ts\n#EXT-X-ENDLIST\n",
        "the file is a list of other files (HLS), not a video; give the video itself")
    add("beside.mp4", b"\0\5\x16\7\0\2\0\0Mac OS X        " + bytes(100),
        "the file is what macOS keeps beside a file (AppleDouble), not a video; give the one whose name does not "
        "begin with ._")
    add("nulls.mp4", bytes(100_000), f"the file holds only null bytes where a video begins; {AGAIN}")
    add("empty.mp4", b"", f"the file is empty; {AGAIN}")
    add("noise.mp4", bytes(range(255, -1, -1)) * 300,
        "the file is in no video format that is known here, or damaged where it begins; check that it plays elsewhere")
    return sentences
