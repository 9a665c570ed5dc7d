#!/usr/bin/python3
"""Draw emoji into a bank that the OCR stage compares pictures with:

    emoji_bank.py OUTPUT.bank [SOURCE …]
    emoji_bank.py OUTPUT.webp SOURCE        the same pictures, small enough to be kept in a repository

A SOURCE is a colour font; a folder of pictures (.svg, .png) whose names are the emoji's code points
("1f44d-1f3fd.svg"); a folder of an Iconify package (icons.json, chars.json); or a sheet OUTPUT.webp.
SVG needs the program rsvg-convert.

Emoji and their sequences (skin tones, families, flags, keycaps) are those of Unicode's emoji-test.txt
(UTS #51). A font that is not there, or that nothing can draw, is left out, and so are its emoji.
The layout of a bank is described in workers/ocr/emoji/bank.h. A sheet holds a bank's fine pictures in
rows of SHEET_COLUMNS, in steps of SHEET_STEP levels; OUTPUT.txt beside it has each emoji's text and aspect.
"""

import io
import json
import pathlib
import struct
import subprocess
import sys

EMOJI_TEST = pathlib.Path("/usr/share/unicode/emoji/emoji-test.txt")
TEXT_BYTES, COARSE, FINE = 48, 8, 20
PIXELS = 109  # the size of Noto's bitmaps; outlines are drawn at it, too
FAINT = 12  # alpha below which a pixel is not part of the shape
SHEET_COLUMNS = 64
SHEET_STEP = 24  # levels: Twemoji's sheet has a mean error of 6 levels and 0.5 MB; without steps 1.8 MB
# Drawn like another emoji, which is what such a picture means: territories that fly another country's flag, and
# the suit of hearts, which is the red heart.
BORROWED_PICTURES = {"\U0001F1E7\U0001F1FB", "\U0001F1E8\U0001F1F5", "\U0001F1EA\U0001F1E6", "\U0001F1ED\U0001F1F2",
                     "\U0001F1F2\U0001F1EB", "\U0001F1F8\U0001F1EF", "\U0001F1FA\U0001F1F2",  # BV CP EA HM MF SJ UM
                     "\u2665\uFE0F"}


def sequences():
    """Every emoji with its qualified form; the text is written as people type it."""
    for line in EMOJI_TEST.read_text(encoding="utf-8").splitlines():
        codes, _, rest = line.partition(";")
        if rest.split("#")[0].strip() != "fully-qualified":
            continue
        text = "".join(chr(int(code, 16)) for code in codes.split())
        is_letter = text[0] < "\u2190" and "\u20E3" not in text
        if not is_letter and text not in BORROWED_PICTURES:  # © and ™ are read with the letters
            yield text


def of_font(path):
    """Each emoji of a colour font on a transparent page, or None."""
    from PIL import Image, ImageDraw, ImageFont, features

    if not features.check("raqm"):
        raise OSError("Pillow was built without raqm, which shapes emoji sequences")
    font = ImageFont.truetype(str(path), PIXELS, layout_engine=ImageFont.Layout.RAQM)

    def draw(text):
        page = Image.new("RGBA", (3 * PIXELS, 2 * PIXELS))
        ImageDraw.Draw(page).text((PIXELS // 2, PIXELS // 4), text, font=font, embedded_color=True)
        return page

    missing = draw("\U000FFFFD").tobytes()
    for text in sequences():
        # A sequence that the font does not know is drawn as its parts.
        if font.getlength(text) <= font.getlength("\U0001F600") * 1.2:
            page = draw(text)
            yield text, page if page.tobytes() != missing else None


def draw_svg(svg):
    from PIL import Image

    drawn = subprocess.run(["rsvg-convert", "--keep-aspect-ratio", f"--width={PIXELS}", f"--height={PIXELS}"],
                           input=svg, stdout=subprocess.PIPE, check=True)
    return Image.open(io.BytesIO(drawn.stdout))


def plain_codes(codes):
    """Code points as they are compared: vendors disagree on FE0F and on leading zeros."""
    return "-".join(code.lstrip("0") for code in codes.lower().split("-") if code != "fe0f")


def codes_of(text):
    return plain_codes("-".join(f"{ord(character):x}" for character in text))


def of_folder(path):
    from PIL import Image

    files = {plain_codes(file.stem): file for file in path.iterdir() if file.suffix in (".svg", ".png")}
    for text in sequences():
        file = files.get(codes_of(text))
        if file:
            yield text, draw_svg(file.read_bytes()) if file.suffix == ".svg" else Image.open(file)


def of_iconify(path):
    icons = json.loads((path / "icons.json").read_text(encoding="utf-8"))
    names = json.loads((path / "chars.json").read_text(encoding="utf-8"))
    names = {plain_codes(codes): name for codes, name in names.items()}
    for text in sequences():
        name = names.get(codes_of(text))
        icon = icons["icons"].get(icons.get("aliases", {}).get(name, {}).get("parent", name))
        if icon:
            width, height = (icon.get(side, icons.get(side, 16)) for side in ("width", "height"))
            yield text, draw_svg(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
                                 f' height="{height}">{icon["body"]}</svg>'.encode())


def shrink(text, page):
    """Text, aspect and fine picture: the tight box with premultiplied colours, stretched to a square."""
    from PIL import Image

    page = page.convert("RGBA")
    box = page.getchannel("A").point(lambda alpha: 255 if alpha >= FAINT else 0).getbbox()
    if box is None or len(text.encode()) >= TEXT_BYTES:
        return None
    picture = page.crop(box).convert("RGBa")
    coarse, fine = (picture.resize((side, side), Image.Resampling.BOX).tobytes() for side in (COARSE, FINE))
    return text, picture.width * 256 // picture.height, coarse, fine


def of_sheet(path):
    from PIL import Image

    sheet = Image.open(path).convert("RGBA")
    for i, line in enumerate(path.with_suffix(".txt").read_text(encoding="utf-8").splitlines()):
        text, aspect = line.split(" ")
        left, top = i % SHEET_COLUMNS * FINE, i // SHEET_COLUMNS * FINE
        fine = sheet.crop((left, top, left + FINE, top + FINE)).tobytes()
        picture = Image.frombytes("RGBa", (FINE, FINE), fine)
        yield text, int(aspect), picture.resize((COARSE, COARSE), Image.Resampling.BOX).tobytes(), fine


def entries(source):
    path = pathlib.Path(source)
    if path.suffix == ".webp":
        return list(of_sheet(path))
    pictures = of_font(path) if path.is_file() else of_iconify(path) if (path / "icons.json").exists() else of_folder(path)
    shrunk = (shrink(text, page) for text, page in pictures if page is not None)
    return [entry for entry in shrunk if entry]


def write_bank(output, bank):
    header = struct.pack("<8sIIII", b"CVEMOJI1", len(bank), TEXT_BYTES, COARSE, FINE)
    texts, aspects, coarse, fine = zip(*bank) if bank else ((), (), (), ())
    texts = (text.encode().ljust(TEXT_BYTES, b"\0") for text in texts)
    output.write_bytes(
        header + b"".join(texts) + struct.pack(f"<{len(bank)}H", *aspects) + b"".join(coarse) + b"".join(fine))


def write_sheet(output, bank):
    from PIL import Image

    sheet = Image.new("RGBA", (SHEET_COLUMNS * FINE, -(-len(bank) // SHEET_COLUMNS) * FINE))
    for i, (_, _, _, fine) in enumerate(bank):
        steps = bytes(min((level + SHEET_STEP // 2) // SHEET_STEP * SHEET_STEP, 255) for level in fine)
        sheet.paste(Image.frombytes("RGBA", (FINE, FINE), steps),
                    (i % SHEET_COLUMNS * FINE, i // SHEET_COLUMNS * FINE))
    sheet.save(output, "WEBP", lossless=True, method=6, exact=True)
    output.with_suffix(".txt").write_text("".join(f"{text} {aspect}\n" for text, aspect, _, _ in bank), encoding="utf-8")


def main(output, *sources):
    bank = []
    for source in sources:
        try:
            bank += entries(source)
        except (ImportError, OSError) as problem:
            print(f"emoji of {source} are left out: {problem}", file=sys.stderr)
    write = write_sheet if output.endswith(".webp") else write_bank
    write(pathlib.Path(output), bank)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
