#!/usr/bin/python3
"""Draw every emoji of a colour font into a bank that the OCR stage compares pictures with:

    emoji_bank.py OUTPUT.bank [FONT.ttf …]

Emoji and their sequences (skin tones, families, flags, keycaps) are those of Unicode's emoji-test.txt
(UTS #51). Without a font, or without what draws it, the bank is empty and emoji are left unread.
The layout is described in workers/ocr/emoji_bank.h.
"""

import pathlib
import struct
import sys

EMOJI_TEST = pathlib.Path("/usr/share/unicode/emoji/emoji-test.txt")
TEXT_BYTES, COARSE, FINE = 48, 8, 20
PIXELS = 109  # the size of Noto's bitmaps; outline fonts are drawn at it, too
FAINT = 12  # alpha below which a pixel is not part of the shape
# Territories that fly another country's flag: the picture means that one.
BORROWED_FLAGS = {"\U0001F1E7\U0001F1FB", "\U0001F1E8\U0001F1F5", "\U0001F1EA\U0001F1E6", "\U0001F1ED\U0001F1F2",
                  "\U0001F1F2\U0001F1EB", "\U0001F1F8\U0001F1EF", "\U0001F1FA\U0001F1F2"}  # BV CP EA HM MF SJ UM


def sequences():
    """Every emoji with its qualified form; the text is written as people type it."""
    for line in EMOJI_TEST.read_text(encoding="utf-8").splitlines():
        codes, _, rest = line.partition(";")
        if rest.split("#")[0].strip() != "fully-qualified":
            continue
        text = "".join(chr(int(code, 16)) for code in codes.split())
        is_letter = text[0] < "\u2190" and "\u20E3" not in text
        if not is_letter and text not in BORROWED_FLAGS:  # © and ™ are read with the letters
            yield text


def draw(font, text, missing):
    """The tight picture of an emoji with premultiplied colours, or None when the font has none."""
    from PIL import Image, ImageDraw

    if font.getlength(text) > font.getlength("\U0001F600") * 1.2:
        return None  # a sequence that the font does not know is drawn as its parts
    page = Image.new("RGBA", (3 * PIXELS, 2 * PIXELS))
    ImageDraw.Draw(page).text((PIXELS // 2, PIXELS // 4), text, font=font, embedded_color=True)
    box = page.getchannel("A").point(lambda alpha: 255 if alpha >= FAINT else 0).getbbox()
    if box is None or page.tobytes() == missing:
        return None
    return page.crop(box).convert("RGBa")


def entries(path):
    from PIL import Image, ImageDraw, ImageFont, features

    if not features.check("raqm"):
        raise OSError("Pillow was built without raqm, which shapes emoji sequences")
    font = ImageFont.truetype(str(path), PIXELS, layout_engine=ImageFont.Layout.RAQM)
    page = Image.new("RGBA", (3 * PIXELS, 2 * PIXELS))
    ImageDraw.Draw(page).text((PIXELS // 2, PIXELS // 4), "\U000FFFFD", font=font, embedded_color=True)
    missing = page.tobytes()
    for text in sequences():
        encoded = text.encode("utf-8")
        picture = draw(font, text, missing)
        if picture is None or len(encoded) >= TEXT_BYTES:
            continue
        sizes = [picture.resize((side, side), Image.Resampling.BOX).tobytes() for side in (COARSE, FINE)]
        yield encoded.ljust(TEXT_BYTES, b"\0"), picture.width * 256 // picture.height, *sizes


def main(output, *fonts):
    bank = []
    for font in fonts:
        try:
            bank += entries(font)
        except (ImportError, OSError) as problem:
            print(f"emoji of {font} are left out: {problem}", file=sys.stderr)
    header = struct.pack("<8sIIII", b"CVEMOJI1", len(bank), TEXT_BYTES, COARSE, FINE)
    columns = zip(*bank) if bank else ((), (), (), ())
    texts, aspects, coarse, fine = columns
    pathlib.Path(output).write_bytes(
        header + b"".join(texts) + struct.pack(f"<{len(bank)}H", *aspects) + b"".join(coarse) + b"".join(fine))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
