"""Pictures of screens, and how they are compared with those that are kept in looks/."""

import base64
import io
import pathlib

import numpy
from PIL import Image, ImageChops, ImageFilter

KEPT = pathlib.Path(__file__).resolve().parent / "looks"
LOOKS = {"desk-light": ((1280, 800), "light"), "desk-dark": ((1280, 800), "dark"),
         "phone-light": ((390, 844), "light"), "phone-dark": ((390, 844), "dark")}
SCALE = 2  # a screen's side against that of its picture
LEVELS = 16  # of each colour in a kept picture, which is off by 8 of 255 at most
# How much one colour of a point differs, of 255, where it counts: within an area of one colour, and at its edges, letters among them,
# which versions of a browser smooth otherwise. All edges a quarter of a pixel aside, or blurred by half a pixel: at most 1 and 6 points in 12
# screens' pictures; half a pixel aside: 561 and more; another word on a button: 139; another colour of a button: 668.
AREA_MIN, EDGE_MIN = 20, 40
POINTS_MAX = 12  # that may differ

# A line of letters in the fonts that the pictures are made with, as a picture of its own.
LETTERS = """<body style="margin: 0; background: white; font: 16px 'Noto Sans', 'Times'">The quick brown fox &amp; 0123456789 äöü
    <code style="font: 14px 'DejaVu Sans Mono', 'Times'">{id: 17}</code>"""


def picture(driver):
    data = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})["data"]
    return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB").reduce(SCALE)


def path_of(name):
    return KEPT / f"{name}.webp"


def keep(image, name):
    step = 255 / (LEVELS - 1)
    fewer = (numpy.round(numpy.asarray(image) / step) * step).astype("uint8")
    Image.fromarray(fewer).save(path_of(name), lossless=True, quality=80, method=4)


def kept(name):
    return Image.open(path_of(name)).convert("RGB") if path_of(name).exists() else None


def within_areas(image):
    """The points all of whose neighbours are like them."""
    return numpy.asarray(ImageChops.difference(image.filter(ImageFilter.MaxFilter(3)), image.filter(ImageFilter.MinFilter(3)))).max(axis=2) < AREA_MIN


def difference(image, other):
    """How many points of two pictures differ, and a picture that shows them; another size counts as all."""
    if other is None or other.size != image.size:
        return image.width * image.height, image
    least = numpy.where(within_areas(image) & within_areas(other), AREA_MIN, EDGE_MIN)
    apart = numpy.asarray(ImageChops.difference(image, other)).max(axis=2) >= least
    shown = numpy.asarray(image) // 3 + 170
    shown[apart] = (220, 0, 0)
    return int(apart.sum()), Image.fromarray(shown)
