"""Pictures of screens, and how they are compared with those that are kept in looks/."""

import io
import pathlib

import numpy
from PIL import Image, ImageChops

KEPT = pathlib.Path(__file__).resolve().parent / "looks"
LOOKS = {"desk-light": ((1280, 800), "light"), "desk-dark": ((1280, 800), "dark"),
         "phone-light": ((390, 844), "light"), "phone-dark": ((390, 844), "dark")}
COLOURS = 256  # of a kept picture
DIFFERENCE_MIN = 40  # of 255, of one colour of a point: what is more than the kept picture's fewer colours can be
POINTS_MAX = 60  # that may differ: a stroke of one letter

# What differs from run to run: ids and what is drawn from them, times, movement, and pictures of videos as they come.
FREEZE = r"""
    const still = new CSSStyleSheet();
    still.replaceSync(`*, *::before, *::after { animation: none !important; transition: none !important; caret-color: transparent !important;
            scrollbar-width: none !important; }
        :root { --font: "Noto Sans"; --fixed: "DejaVu Sans Mono"; --hue: light-dark(#dff1e6, #22392d); }
        .away, .progress-line { display: none !important; }
        .ground { background: var(--hue) !important; }
        .spark, .chart > *, .history, meter, video, cv-boxes, .seek, .strip, .volume, .range { visibility: hidden !important; }`);
    document.adoptedStyleSheets = [still];
    document.activeElement.blur();
    const month = '(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*';
    const frozen = [
        [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '00000000-0000-4000-8000-000000000000'],
        [/\b(?=[0-9a-f]*\d)[0-9a-f]{8}\b/g, '00000000'],
        [new RegExp(`(?:\\w+day, )?${month} \\d+, \\d{4}`, 'g'), 'Jan 1, 2026'],
        [/\d+:\d\d:\d\d\s[AP]M/g, '1:00:00 AM'],
        [/\bin (\d+|an?) (second|minute|hour|day|week|month)s?\b|\bnext week\b|\btomorrow\b/g, 'in 2 hours'],
        [/\b\d+ (second|minute|hour|day|week|month)s? ago\b|\byesterday\b|\blast (week|month)\b|^now$/g, '2 hours ago'],
        [/\b[\d.,]+ (ms|s|min|h|d)\b/g, '3 min'], [/\b[\d.,]+ ([KMGT]i)?B\b/g, '3 MiB'], [/\b[\d.,]+ %/g, '50 %']];
    const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = all.nextNode(); node; node = all.nextNode()) {
        const text = frozen.reduce((now, [what, instead]) => now.replace(what, instead), node.data);
        node.data === text || (node.data = text);
    }
"""

# A line of letters in the fonts that the pictures are made with, as a picture of its own.
LETTERS = """<body style="margin: 0; background: white; font: 16px 'Noto Sans', 'Times'">The quick brown fox &amp; 0123456789 äöü
    <code style="font: 14px 'DejaVu Sans Mono', 'Times'">{id: 17}</code>"""


def picture(driver):
    return Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")


def frozen_picture(screen):
    """What was drawn anew between freezing and photographing is frozen again."""
    for _ in range(2):
        screen.script(FREEZE)
        taken = picture(screen.driver)
    return taken


def keep(image, name):
    KEPT.mkdir(exist_ok=True)
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(KEPT / f"{name}.png", optimize=True)


def difference(image, name):
    """How many points of the picture differ from the kept one, and a picture that shows them; a size counts as all."""
    path = KEPT / f"{name}.png"
    kept = Image.open(path).convert("RGB") if path.exists() else None
    if kept is None or kept.size != image.size:
        return image.width * image.height, image
    apart = numpy.asarray(ImageChops.difference(kept, image)).max(axis=2) >= DIFFERENCE_MIN
    shown = numpy.asarray(image) // 3 + 170
    shown[apart] = (220, 0, 0)
    return int(apart.sum()), Image.fromarray(shown.astype("uint8"))
