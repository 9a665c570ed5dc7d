"""Checks the objects that the transcode stage has stored: playlists against segments, and segments against the bits in them.
To find errors of the writer, it trusts nothing but the stored objects, and shares no code with it:

- every object named in a playlist or the WebVTT exists, and every object that exists is named;
- each segment begins where the durations before it end (1 ms), with a key frame that is shown first and not decoded after it is
  shown (players would shift the segment); decoding times increase; sound has no gap and ends with the pictures;
- all renditions show the same frames and have the same key frames, at most 10.5 s apart;
- playlists of key frames: each range is exactly one key frame, and none is missing;
- CODECS, RESOLUTION, FRAME-RATE, BANDWIDTH and AVERAGE-BANDWIDTH agree with the bits;
- the poster is JPEG, the sheets are WebP; cues are continuous from 0 to the end and lie
  within their sheets."""
import json
import re
import struct
import subprocess

CLOCK = 90000
TOLERANCE = 90  # ticks: 1 ms; rounding in EXTINF takes little of it
SOUND_PACKET = 1920  # ticks of 1,024 samples
KEY_TICKS = 10 * CLOCK + 50000  # key frames of a copied source: 10 s, and later if there is no picture earlier
REORDER_MOST = 18000  # hls.js, which ignores edit lists, gets over 0.2 s
LAST_PICTURES = 8  # fewer after the last key frame, and Chromium does not begin there beside sound
PAUSE = CLOCK // 2 + TOLERANCE
MUX_OFFSET = 126000  # times in MPEG-TS are 1.4 s later than the presentation's


class Packets(list):
    """(pts, dts, is it a key frame) of a segment in ticks from the presentation's start, in its own order."""
    streams, is_video, codec = 0, False, ""


# ---- MP4 ----------------------------------------------------------------------------------------------------------------------

def boxes(data):
    """(type, content) of each box; a box that reaches beyond the end has the type ''."""
    at = 0
    while at < len(data):
        size, = struct.unpack(">I", data[at:at + 4]) if len(data) - at >= 8 else (0,)
        if size < 8 or size > len(data) - at:
            yield "", b""
            return
        yield data[at + 4:at + 8].decode("latin-1"), data[at + 8:at + size]
        at += size


def box(data, *path):
    """The content of the first box at a path; b'' if there is none."""
    for name in path:
        data = next((content for kind, content in boxes(data) if kind == name), b"")
    return data


class Head:
    """What an init_*.mp4 says: the codec, the size, and how times are counted."""

    def __init__(self, data):
        kinds = [kind for kind, _ in boxes(data)]
        ftyp = box(data, "ftyp")
        self.wrong = ("a box reaches beyond the end" if "" in kinds
                      else "does not say that it is CMAF" if kinds[:1] != ["ftyp"] or b"cmfc" not in ftyp[8:]
                      else "the head has more than its moov" if kinds != ["ftyp", "moov"] else None)
        self.scale, self.is_video, self.codec, self.picture = CLOCK, True, "", (0, 0)
        if "moov" in kinds:
            self.read(data)

    def read(self, data):
        track = box(data, "moov", "trak")
        media = box(track, "mdia", "mdhd")
        self.scale, = struct.unpack(">I", media[20:24] if media[:1] == b"\1" else media[12:16])
        self.shift = 0
        edits = box(track, "edts", "elst")
        for i in range(int.from_bytes(edits[4:8], "big")):
            size = 20 if edits[0] == 1 else 12
            length, start = struct.unpack(">Qq" if edits[0] == 1 else ">Ii", edits[8 + i * size:][:size - 4])
            movie = box(data, "moov", "mvhd")
            scale, = struct.unpack(">I", movie[20:24] if movie[:1] == b"\1" else movie[12:16])
            self.shift += start if start >= 0 else -length * self.scale // scale
        self.duration, _, self.flags = struct.unpack(">III", box(data, "moov", "mvex", "trex")[12:24])
        self.is_video = box(track, "mdia", "hdlr")[8:12] == b"vide"
        (kind, entry), = boxes(box(track, "mdia", "minf", "stbl", "stsd")[8:])
        self.codec = self.name(kind, entry)
        self.picture = struct.unpack(">HH", entry[24:28])

    @staticmethod
    def name(kind, entry):
        if kind == "avc1":
            return f"avc1.{box(entry[78:], 'avcC')[1:4].hex().upper()}"
        # An MPEG-4 descriptor; the configuration of AAC is after tag 5 and its length.
        config = re.search(rb"\x05(?:\x80\x80\x80)?[\x02-\x20](..)", box(entry[28:], "esds"), re.S)
        is_48k = config and int.from_bytes(config[1], "big") >> 7 & 15 == 3
        return f"mp4a.40.{config[1][0] >> 3}" if is_48k else ""


def read_fragment(head, content, packets):
    """The samples of one moof."""
    track = box(content, "traf")
    header = box(track, "tfhd")
    flags = int.from_bytes(header[1:4], "big")
    duration, sample_flags, at = head.duration, head.flags, 8
    at += 8 * bool(flags & 1) + 4 * bool(flags & 2)
    if flags & 8:
        duration, at = int.from_bytes(header[at:at + 4], "big"), at + 4
    at += 4 * bool(flags & 0x10)
    if flags & 0x20:
        sample_flags = int.from_bytes(header[at:at + 4], "big")
    begin = box(track, "tfdt")
    time = int.from_bytes(begin[4:], "big")

    def ticks(value):
        return round((value - head.shift) * CLOCK / head.scale)

    for kind, run in boxes(track):
        if kind != "trun":
            continue
        flags, count = int.from_bytes(run[1:4], "big"), int.from_bytes(run[4:8], "big")
        at = 8 + 4 * bool(flags & 1)
        first = int.from_bytes(run[at:at + 4], "big") if flags & 4 else None
        at += 4 * bool(flags & 4)
        for i in range(count):
            values = {}
            for bit in (0x100, 0x200, 0x400, 0x800):
                if flags & bit:
                    values[bit], at = int.from_bytes(run[at:at + 4], "big", signed=bit == 0x800), at + 4
            how = first if first is not None and i == 0 else values.get(0x400, sample_flags)
            packets.append((ticks(time + values.get(0x800, 0)), ticks(time), not how & 0x01010000 or not head.is_video))
            time += values.get(0x100, duration)


def read_mp4(head, data):
    """Packets of a segment, and what is wrong with its boxes."""
    packets = Packets()
    if not head.codec:
        return packets, None
    packets.streams, packets.is_video, packets.codec = 1, head.is_video, head.codec
    kinds = []
    for kind, content in boxes(data):
        kinds.append(kind)
        if kind == "moof":
            read_fragment(head, content, packets)
    if "" in kinds:
        return packets, "a box reaches beyond the end"
    if kinds[::2] != ["moof"] * len(kinds[::2]) or kinds[1::2] != ["mdat"] * len(kinds[1::2]):
        return packets, "is not a run of moof and mdat"
    return packets, "ends within a fragment" if len(kinds) % 2 else None


# ---- MPEG-TS ------------------------------------------------------------------------------------------------------------------

def stamp(data):
    return (data[0] >> 1 & 7) << 30 | data[1] << 22 | (data[2] >> 1) << 15 | data[3] << 7 | data[4] >> 1


def read_units(data):
    """{PID: [[payload, is it a place to begin], …]} of the units that begin in a run of transport packets."""
    units = {}
    for at in range(0, len(data) - 187, 188):
        packet = data[at:at + 188]
        pid = (packet[1] & 0x1f) << 8 | packet[2]
        has_field = packet[3] & 0x20
        payload = packet[5 + packet[4]:] if has_field else packet[4:]
        if packet[1] & 0x40:
            is_random = bool(has_field and packet[4] and packet[5] & 0x40)
            units.setdefault(pid, []).append([[payload], is_random])
        elif pid in units and packet[3] & 0x10:
            units[pid][-1][0].append(payload)
    return {pid: [(b"".join(parts), is_random) for parts, is_random in found] for pid, found in units.items()}


def read_sound(payload, pts, packets):
    """The frames of an ADTS stream."""
    at = 0
    while at + 7 <= len(payload) and payload[at] == 0xff and payload[at + 1] & 0xf6 == 0xf0:
        length = (payload[at + 3] & 3) << 11 | payload[at + 4] << 3 | payload[at + 5] >> 5
        if length < 7 or at + length > len(payload):
            return
        is_48k = payload[at + 2] >> 2 & 15 == 3
        packets.codec = f"mp4a.40.{(payload[at + 2] >> 6) + 1}" if is_48k else ""
        packets.append((pts, pts, True))
        at, pts = at + length, pts + SOUND_PACKET


def read_ts(data):
    packets = Packets()
    units = read_units(data)
    tables = units.get(0, [])
    pmt = units.get(int.from_bytes(tables[0][0][11:13], "big") & 0x1fff, []) if tables else []
    if not pmt:
        return packets
    table = pmt[0][0][1:]
    end = 3 + (int.from_bytes(table[1:3], "big") & 0xfff) - 4
    at = 12 + (int.from_bytes(table[10:12], "big") & 0xfff)
    while at < end:
        kind, pid = table[at], int.from_bytes(table[at + 1:at + 3], "big") & 0x1fff
        at += 5 + (int.from_bytes(table[at + 3:at + 5], "big") & 0xfff)
        packets.streams += 1
        packets.is_video = packets.is_video or kind == 0x1b
        for unit, is_random in units.get(pid, []):
            pts = stamp(unit[9:14]) - MUX_OFFSET
            dts = stamp(unit[14:19]) - MUX_OFFSET if unit[7] & 0x40 else pts
            payload = unit[9 + unit[8]:]
            if kind == 0x0f:
                read_sound(payload, pts, packets)
                continue
            packets.append((pts, dts, is_random))
            sps = re.search(rb"\x00\x00\x01[\x07\x27\x47\x67](...)", payload, re.S)
            if sps and not packets.codec:
                packets.codec = f"avc1.{sps[1].hex().upper()}"
    return packets


# ---- playlists ----------------------------------------------------------------------------------------------------------------

def attributes(line):
    """The attribute list of a tag as a dict; quotes taken off."""
    return {key: value.strip('"') for key, value in re.findall(r'([A-Z0-9-]+)=("[^"]*"|[^,]*)', line.partition(":")[2])}


class Playlist:
    """Of segments: their entries as [name, duration, offset, size]; size None: the whole object."""

    def __init__(self, text, tell):
        if not text.startswith("#EXTM3U\n"):
            tell("is not a playlist")
        lines = text.splitlines()
        self.target = next((int(line.partition(":")[2]) for line in lines if line.startswith("#EXT-X-TARGETDURATION:")), 0)
        self.independent = "#EXT-X-INDEPENDENT-SEGMENTS" in lines
        self.keys_only = "#EXT-X-I-FRAMES-ONLY" in lines
        self.head = next((attributes(line)["URI"] for line in lines if line.startswith("#EXT-X-MAP:")), None)
        self.entries = []
        duration, size, offset = 0, None, 0
        for line in lines:
            if line.startswith("#EXTINF:"):
                duration = float(line[8:].rstrip(","))
            elif line.startswith("#EXT-X-BYTERANGE:"):
                size, offset = map(int, line.partition(":")[2].split("@"))
            elif line and line[0] != "#" and "/" in line:
                tell(f"names what lies elsewhere: {line}")
            elif line and line[0] != "#":
                self.entries.append((line, duration, offset, size))
                duration, size, offset = 0, None, 0
        if "#EXT-X-ENDLIST" not in lines:
            tell("has no end")
        for name, duration, _, size in self.entries:
            if not self.keys_only and size is not None:
                tell(f"names a part of {name}")
            if duration <= 0 or int(duration + 0.5) > self.target:
                tell(f"{name} lasts {duration:.3f} s, beyond the target of {self.target}")

    def peak(self, bits):
        """The highest rate of any run of segments that lasts 0.5 to 1.5 target durations."""
        highest = 0
        for first in range(len(bits)):
            total = seconds = 0
            for count, entry in zip(bits[first:], self.entries[first:]):
                total, seconds = total + count, seconds + entry[1]
                if 0.5 * self.target <= seconds <= 1.5 * self.target:
                    highest = max(highest, total / seconds)
        return highest


# ---- the check ----------------------------------------------------------------------------------------------------------------

class Rendition:
    """What was found in one media playlist."""
    seconds = bits = peak = most_frames = target = reorder = 0
    codec, picture, head = "", (0, 0), None

    def __init__(self, check, name, is_video):
        self.name, self.check, self.is_video = name, check, is_video
        self.times, self.keys = [], []
        text = check.stream(name)
        if text is None:
            return
        playlist = Playlist(text.decode(), self.tell)
        if not playlist.independent or playlist.keys_only:
            self.tell("does not say that its segments are independent")
        data = check.stream(playlist.head) if playlist.head else None
        if data:
            self.head = Head(data)
            self.codec, self.picture = self.head.codec, self.head.picture
            if self.head.wrong:
                self.tell(f"{playlist.head}: {self.head.wrong}")
        self.target = playlist.target
        bits, frames = [], []
        for entry in playlist.entries:
            size, count = self.read_segment(*entry)
            bits.append(8 * size)
            frames.append(count)
            self.seconds += entry[1]
        self.bits = sum(bits)
        rates = [count / entry[1] for count, entry in zip(frames, playlist.entries) if entry[1] >= 1]
        self.most_frames = max(rates, default=0) or (sum(frames) / self.seconds if self.seconds else 0)
        self.peak = max(playlist.peak(bits), self.bits / self.seconds if self.seconds else 0)
        self.check_times()

    def tell(self, what):
        self.check.tell(self.name, what)

    def read(self, data):
        return read_mp4(self.head, data) if self.head else (read_ts(data), None)

    def read_segment(self, name, duration, offset, size):
        """(bytes, packets)"""
        data = self.check.range(name, offset, size)
        if data is None:
            return 0, 0
        packets, wrong = self.read(data)
        self.check.summary["segments"] += 1
        if not packets or packets.streams != 1 or packets.is_video != self.is_video:
            self.check.tell(name, f"is not a segment with one stream of {'pictures' if self.is_video else 'sound'}")
            return len(data), len(packets)
        if wrong:
            self.check.tell(name, wrong)
        self.check_edges(name, duration, packets)
        if not self.codec:
            self.codec = packets.codec
            self.picture = self.check.picture(data) if self.is_video else (0, 0)
        elif self.codec != packets.codec:
            self.check.tell(name, f"is {packets.codec}; those before it are not")
        self.times += sorted(pts for pts, _, _ in packets)
        self.keys += [pts for pts, _, is_key in packets if is_key]
        return len(data), len(packets)

    def check_edges(self, name, duration, packets):
        first, last = min(packets)[0], max(packets)[0]
        begin = self.seconds * CLOCK
        if any(packet[1] <= before[1] for packet, before in zip(packets[1:], packets)):
            self.check.tell(name, "decoding times do not grow")
        if abs(first - begin) > TOLERANCE:
            self.check.tell(name, f"begins at {first / CLOCK:.4f} s; the playlist says {self.seconds:.4f}")
        if last > begin + duration * CLOCK + TOLERANCE:
            self.check.tell(name, f"reaches to {last / CLOCK:.4f} s; the playlist ends it at {self.seconds + duration:.4f}")
        if not self.is_video:
            return
        if not packets[0][2] or packets[0][0] != first:
            self.check.tell(name, "does not begin with a key frame")
        reorder = packets[0][0] - packets[0][1]
        self.reorder = self.reorder if self.seconds else reorder
        if reorder != self.reorder or not 0 <= reorder <= REORDER_MOST:
            self.check.tell(name, f"is decoded {reorder / CLOCK:.3f} s before it is shown")

    def check_times(self):
        for before, time in zip(self.times, self.times[1:]):
            if time <= before or not self.is_video and abs(time - before - SOUND_PACKET) > 1:
                self.tell(f"{'two packets of one time' if time <= before else 'a gap in the sound'} at {time / CLOCK:.4f} s")
                break
        if not self.is_video and self.times:
            end = self.times[-1] + SOUND_PACKET
            if abs(end - self.seconds * CLOCK) > 2 * SOUND_PACKET:  # the last packet is padded with silence
                self.tell(f"the sound ends at {end / CLOCK:.3f} s of {self.seconds:.3f}")
        for before, key in zip(self.keys, self.keys[1:]):
            if self.is_video and key - before > KEY_TICKS:
                self.tell(f"no key frame for {(key - before) / CLOCK:.3f} s before {key / CLOCK:.3f} s")

    def check_keys(self, name):
        """Its playlist of key frames."""
        text = self.check.stream(name)
        if text is None:
            return
        playlist = Playlist(text.decode(), lambda what: self.check.tell(name, what))
        if bool(playlist.head) != bool(self.head):
            self.check.tell(name, f"names another head than {self.name}")
        if not playlist.keys_only or len(playlist.entries) != len(self.keys):
            self.check.tell(name, f"has {len(playlist.entries)} key frames of {len(self.keys)}")
            return
        for key, (segment, _, offset, size) in zip(self.keys, playlist.entries):
            data = self.check.range(segment, offset, size or 0)
            if data is None:
                continue
            packets, _ = self.read(data)
            if [(pts, is_key) for pts, _, is_key in packets] != [(key, True)] or not packets.codec:
                self.check.tell(name, f"{size}+{offset} of {segment} is not the key frame of {key / CLOCK:.3f} s alone")

    def check_last_group(self):
        """Chromium does not begin where too few pictures follow: with separate sound hls.js tells it only later that no more come."""
        if self.keys and (len(self.keys) == 1 or self.seconds * CLOCK - self.keys[-1] > PAUSE):
            pictures = sum(time >= self.keys[-1] for time in self.times)
            if pictures < LAST_PICTURES:
                self.tell(f"{pictures} pictures from the last key frame on, too few for players with sound")

    def check_same(self, first):
        if self.times != first.times:
            self.tell(f"does not show the frames that {first.name} shows")
        if self.keys != first.keys:
            self.tell(f"has other key frames than {first.name}")
        if abs(self.seconds - first.seconds) > 0.001 or self.target != first.target:
            self.tell(f"lasts {self.seconds:.3f} s, {first.name} {first.seconds:.3f}")

    def check_variant(self, line, sounds):
        """The variant's tag against the bits of the pictures and of the largest sound track."""
        sound = max((track.codec for track in sounds), default="")
        average = self.bits / self.seconds if self.seconds else 0
        average += max((track.bits / track.seconds for track in sounds if track.seconds), default=0)
        peak = self.peak + max((track.peak for track in sounds), default=0)
        rate = min(self.most_frames, 60)
        for name, expected in (("CODECS", ",".join(filter(None, [self.codec, sound]))), ("RESOLUTION", "%dx%d" % self.picture)):
            if line.get(name) != expected:
                self.tell(f"{name} is {line.get(name)}, the bits are {expected}")
        if ("AUDIO" in line) != bool(sounds):
            self.tell("AUDIO does not say whether there is sound")
        # Apple's authoring rules: the peak within 10 %. Durations in playlists are whole microseconds.
        bandwidth = float(line.get("BANDWIDTH", 0))
        if not peak * (1 - 1e-4) - 1 <= bandwidth <= 1.1 * peak + 1:
            self.tell(f"BANDWIDTH is {bandwidth:.0f}, the bytes make {peak:.0f}")
        told = float(line.get("AVERAGE-BANDWIDTH", 0))
        if abs(told - average) > 0.01 * average + 1:
            self.tell(f"AVERAGE-BANDWIDTH is {told:.0f}, the bytes make {average:.0f}")
        told = float(line.get("FRAME-RATE", 0))
        if len(self.times) > 1 and abs(told - rate) > 0.01 * rate:
            self.tell(f"FRAME-RATE is {told:.3f}, the pictures make {rate:.3f}")


class Check:
    def __init__(self, store, video_id):
        self.proxy, self.thumbs = store / "videos/proxy" / video_id, store / "thumbs" / video_id
        self.findings, self.named = [], set()
        self.summary = {"renditions": 0, "segments": 0, "key_frames": 0, "tiles": 0, "sound": False, "duration": 0}

    def tell(self, where, what):
        self.findings.append(f"{where}: {what}")

    def read(self, path):
        """The bytes of an object, which is then named; None, and a finding, if it is missing."""
        self.named.add(path)
        if not path.is_file():
            self.tell(path.name, "is missing")
            return None
        return path.read_bytes()

    def stream(self, name):
        return self.read(self.proxy / name)

    def range(self, name, offset, size):
        data = self.stream(name)
        if data is None or size is None:
            return data
        if size < 1:
            self.tell(name, "is named without a usable range")
            return None
        if offset + size > len(data):
            self.tell(name, f"does not have the bytes {offset}+{size}")
            return None
        return data[offset:offset + size]

    @staticmethod
    def picture(segment):
        """Width and height of a segment of MPEG-TS."""
        done = subprocess.run(["ffprobe", "-v", "error", "-of", "json", "-show_entries", "stream=width,height", "-"], input=segment,
                              capture_output=True, check=False)
        stream = json.loads(done.stdout)["streams"][0]
        return stream["width"], stream["height"]

    def run(self):
        text = self.stream("index.m3u8")
        if text is None:
            return
        lines = text.decode().splitlines()
        tags = {kind: [attributes(line) for line in lines if line.startswith(f"#EXT-X-{kind}:")]
                for kind in ("STREAM-INF", "MEDIA", "I-FRAME-STREAM-INF")}
        names = [lines[i + 1] for i, line in enumerate(lines) if line.startswith("#EXT-X-STREAM-INF:")]
        keys = [tag["URI"] for tag in tags["I-FRAME-STREAM-INF"]]
        self.check_tracks(tags["MEDIA"])
        is_independent = "#EXT-X-INDEPENDENT-SEGMENTS" in lines
        if not is_independent or not names or len(keys) != len(names):
            self.tell("index.m3u8", f"{len(names)} variants, {len(keys)} playlists of key frames"
                      f"{'' if is_independent else ', segments not independent'}")
        if names:
            self.check_renditions(names, keys, tags)
            self.check_thumbs()
            for path in sorted({*self.proxy.iterdir(), *self.thumbs.iterdir()} - self.named):
                self.tell(path.name, "is named by nothing")

    def check_tracks(self, tracks):
        labels = [track.get("NAME") for track in tracks]
        defaults = sum(track.get("DEFAULT") == "YES" for track in tracks)
        if len(set(labels)) < len(labels):
            self.tell("index.m3u8", f"two tracks have one name: {labels}")
        if any(track.get("GROUP-ID") != "sound" or not track.get("NAME") for track in tracks):
            self.tell("index.m3u8", "a track is in no group, or has no name")
        if defaults != bool(tracks):
            self.tell("index.m3u8", f"{defaults} tracks of sound are the default")

    def check_renditions(self, names, keys, tags):
        sounds = [Rendition(self, track["URI"], False) for track in tags["MEDIA"]]
        for sound in sounds:
            if sound.codec != sounds[0].codec:
                self.tell(sound.name, f"is {sound.codec}, other tracks are {sounds[0].codec}")
        sounds_heard = [sound for sound in sounds if sound.times]
        pictures = [Rendition(self, name, True) for name in names]
        for name in keys:
            for rendition in pictures:
                if name.startswith(rendition.name.partition(".")[0] + "_"):
                    rendition.check_keys(name)
        first = pictures[0]
        for rendition, line in zip(pictures, tags["STREAM-INF"]):
            rendition.check_variant(line, sounds_heard)
            rendition.check_same(first)
            if sounds_heard:
                rendition.check_last_group()
        for sound in sounds:
            if abs(sound.seconds - first.seconds) > 0.001:
                self.tell(sound.name, f"lasts {sound.seconds:.3f} s, the pictures {first.seconds:.3f}")
        self.summary.update(renditions=len(pictures), sound=bool(sounds_heard), duration=first.seconds, key_frames=len(first.keys))

    def sheet(self, name):
        """The size in the frame header of a lossy WebP without transparency; (0, 0) and a finding if there is none."""
        data = self.read(self.thumbs / name)
        if data is None:
            return 0, 0
        if len(data) < 30 or data[:4] != b"RIFF" or data[8:16] != b"WEBPVP8 " or data[23:26] != b"\x9d\x01\x2a":
            self.tell(name, "is no WebP")
            return 0, 0
        return tuple(side & 0x3fff for side in struct.unpack("<HH", data[26:30]))

    def check_thumbs(self):
        poster = self.read(self.thumbs / "poster.jpg")
        if poster is not None and not poster.startswith(b"\xff\xd8\xff"):
            self.tell("poster.jpg", "is no JPEG")
        text = self.read(self.thumbs / "thumbnails.vtt")
        if text is not None:
            self.check_cues(text.decode())

    def check_cues(self, text):
        file, expected, sheets = "thumbnails.vtt", 0, {}
        if not text.startswith("WEBVTT\n"):
            self.tell(file, "is no WebVTT")
        for cue in re.finditer(r"(\d+):(\d+):([\d.]+) --> (\d+):(\d+):([\d.]+)\n(.*)", text):
            hours, minutes, seconds, *end = map(float, cue.groups()[:6])
            start, end = 3600 * hours + 60 * minutes + seconds, 3600 * end[0] + 60 * end[1] + end[2]
            if abs(start - expected) > 0.002 or end <= start:  # the file counts milliseconds
                self.tell(file, f"the cue at {start:.3f} s does not follow the one that ends at {expected:.3f}")
            expected = end
            place = re.fullmatch(r"([^#/]+)#xywh=(\d+),(\d+),(\d+),(\d+)", cue[7])
            if not place:
                self.tell(file, f"the cue at {start:.3f} s names no part of a sheet")
                continue
            if place[1] not in sheets:
                sheets[place[1]] = self.sheet(place[1])
            left, top, width, height = map(int, place.groups()[1:])
            if not (width and height and left + width <= sheets[place[1]][0] and top + height <= sheets[place[1]][1]):
                self.tell(file, f"the cue at {start:.3f} s lies beside the sheet {place[1]}")
            self.summary["tiles"] += 1
        duration = self.summary["duration"]
        if duration >= 1 and abs(expected - duration) > 0.002:
            self.tell(file, f"ends at {expected:.3f} s, the video at {duration:.3f}")


def check(store, video_id):
    """(findings, one line each; what was found)"""
    run = Check(store, video_id)
    run.run()
    return run.findings, run.summary
