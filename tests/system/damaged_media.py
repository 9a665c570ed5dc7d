"""Damages good media files in the ways that stores, disks, networks and attackers do: a wrong time
stamp, swapped chunks, flipped bits. What is random is seeded: the same seed, the same damage."""
import random
import struct


def flip_bits(data, seed, count, start=0, end=None):
    """Flips `count` bits between two offsets."""
    chance, data = random.Random(seed), bytearray(data)
    for _ in range(count):
        data[chance.randrange(start, end or len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def swap_chunks(data, seed, size=8192, pairs=4):
    """Swaps pairs of chunks, but for the first, which holds the header."""
    chance, data = random.Random(seed), bytearray(data)
    for _ in range(pairs):
        one, other = (size * chance.randrange(1, len(data) // size) for _ in range(2))
        data[one:one + size], data[other:other + size] = data[other:other + size], data[one:one + size]
    return bytes(data)


def cut_out(data, seed, size=4096):
    """Leaves a stretch out."""
    at = random.Random(seed).randrange(size, max(size + 1, len(data) - size))
    return data[:at] + data[at + size:]


def _flv_tags(data):
    at = 13
    while at + 11 < len(data):
        yield at
        at += 15 + int.from_bytes(data[at + 1:at + 4], "big")


def flv_time(data, number, hours_byte):
    """The highest byte of the time stamp of one sound tag: each step is 4.66 hours."""
    sounds = [at for at in _flv_tags(data) if data[at] == 8]
    data = bytearray(data)
    data[sounds[number] + 7] = hours_byte
    return bytes(data)


def ts_times(data, seed, count):
    """One of the upper bits of the presentation times of some pictures in MPEG-TS; their decoding
    times stay."""
    chance, data = random.Random(seed), bytearray(data)
    stamps = [at for at in range(0, len(data) - 188, 4)
              if data[at:at + 3] == b"\0\0\1" and data[at + 3] == 0xe0 and data[at + 7] & 0xc0 == 0xc0]
    for at in chance.sample(stamps[2:], count):
        data[at + 9] ^= chance.choice((2, 4, 8))
    return bytes(data)


def fragment_offset(data, number, ticks):
    """The composition offset of the second sample of one fragment's track run."""
    runs, at = [], data.find(b"trun")
    while at >= 0:
        flags = int.from_bytes(data[at + 5:at + 8], "big")
        if flags & 0x800:
            runs.append((at, flags))
        at = data.find(b"trun", at + 4)
    at, flags = runs[number]
    sample = 4 * bin(flags & 0xf00).count("1")
    first = at + 12 + (4 if flags & 1 else 0) + (4 if flags & 4 else 0)
    data = bytearray(data)
    struct.pack_into(">I", data, first + 2 * sample - 4, ticks)
    return bytes(data)


def mp4_field(data, box, offset, value):
    """A field of 32 bits, `offset` bytes behind a box's name."""
    data = bytearray(data)
    struct.pack_into(">I", data, data.index(box) + 4 + offset, value)
    return bytes(data)


def fragments_apart(data, seconds):
    """Each fragment that many seconds behind the one before it, in all tracks."""
    scales, at = [], data.find(b"mdhd")
    while at >= 0:
        scales.append(int.from_bytes(data[at + 16:at + 20], "big"))
        at = data.find(b"mdhd", at + 4)
    data, number, at = bytearray(data), -1, data.find(b"moof")
    while at >= 0:
        number, end = number + 1, data.find(b"mdat", at)
        for scale in scales:
            at = data.find(b"tfdt", at, end)
            if at < 0:
                break
            struct.pack_into(">Q" if data[at + 4] else ">I", data, at + 8, number * seconds * scale)
            at += 4
        at = data.find(b"moof", end)
    return bytes(data)


def edit_list(data, entries):
    """Another edit list for an MP4's first track: (duration, media time, rate in 16.16), …. The header lies
    behind the media, so that nothing but its own boxes grows."""
    at = data.index(b"elst") - 4
    end = at + int.from_bytes(data[at:at + 4], "big")
    body = b"".join(struct.pack(">Iii", *entry) for entry in entries)
    new = struct.pack(">I4sII", 16 + len(body), b"elst", 0, len(entries)) + body
    data, grown = bytearray(data[:at] + new + data[end:]), len(new) - (end - at)
    moov = data.index(b"moov")
    for box in (moov, data.index(b"trak", moov), data.index(b"edts", moov)):
        struct.pack_into(">I", data, box - 4, int.from_bytes(data[box - 4:box], "big") + grown)
    return bytes(data)
