"""Lines in a script that no model reads: its name is in the stage's result, in the database, on the command line and in the API."""

import io
import pathlib
import shutil

import pytest
from PIL import Image, ImageDraw, ImageFont
from test_ocr import FONT, Ocr, texts

MODELS = pathlib.Path("/usr/share/tesseract-ocr/5/tessdata")
ENGLISH = ["Thursday evening train leaves", "see @dev_marcus about #coffee", "the harbour bridge is closed",
           "tickets cost 1,204 or $19.99", "please do not forget the milk", "how much is a loaf of bread",
           "thank you for the flowers", "we meet at the old station"]
RUSSIAN = ["Жители города вышли на площадь", "Ещё один день хорошей погоды", "Съешь же ещё этих булок",
           "Южный ветер усилится к ночи", "Школьники пишут изложение", "Цены на жильё снова выросли",
           "Почему журналисты ждут ответа", "Объявлен конкурс чтецов", "Футбол: ничья в Нижнем",
           "Для жителей открыли музей", "Дождь пройдёт в понедельник", "Выставка цветов в июле"]
GREEK = ["Ψηφίστηκε ο νέος νόμος", "Καλημέρα σε όλους σας", "Ξεκινά η έκθεση βιβλίου", "Θάλασσα και ήλιος φέτος",
         "Δύο φίλοι στο λιμάνι", "Λύση για τη γέφυρα", "Πλήθος κόσμου στην πλατεία", "Φωτιά σε δάσος της Εύβοιας"]


def picture_of(lines):
    picture = Image.new("RGB", (1280, 96 + 72 * len(lines)), "white")
    font = ImageFont.truetype(FONT, 34)
    for i, line in enumerate(lines):
        ImageDraw.Draw(picture).text((60, 48 + 72 * i), line, fill="black", font=font)
    return picture


def draw(ocr, lines):
    data = io.BytesIO()
    picture_of(lines).save(data, "JPEG", quality=90)
    return ocr.put(0, data.getvalue())


@pytest.fixture
def ocr(program, tmp_path):
    return Ocr(program("ocr-worker"), tmp_path)


def page_of(ocr, fixtures_dir, names):
    """A page of the fixtures in this script, with lines enough."""
    pages = [Image.open(fixtures_dir / "scripts" / f"{name}.png").convert("RGB") for name in names]
    page = Image.new("RGB", (max(one.width for one in pages), sum(one.height for one in pages)), "white")
    for i, one in enumerate(pages):
        page.paste(one, (0, sum(above.height for above in pages[:i])))
    data = io.BytesIO()
    page.save(data, "JPEG", quality=90)
    return ocr.put(0, data.getvalue())


@pytest.mark.parametrize("lines,script", [(RUSSIAN, "Cyrillic"), (GREEK, "Greek")])
def test_a_script_without_a_model_is_named(ocr, lines, script):
    result = ocr.read([draw(ocr, lines)], languages=["eng"])
    (unread,) = result["unread"]
    assert unread["script"] == script and 4 <= unread["lines"] <= len(lines), result
    # The same of the lines that are kept.
    again = ocr.read(None, frame_paths=None, line_paths=[result["lines_path"]], languages=["eng"])
    assert again["unread"] == result["unread"]


def test_what_is_read_is_not_named(ocr):
    result = ocr.read([draw(ocr, ENGLISH)], languages=["eng"])
    assert texts(result) == ENGLISH and result["unread"] == []


def test_a_script_of_a_model_that_reads_is_not_named(ocr, tmp_path, monkeypatch):
    """The model's name alone says what it reads: this one reads no Greek, so that its lines stay unread."""
    folder = tmp_path / "tessdata"
    (folder / "script").mkdir(parents=True)
    for name, place in (("eng", "eng"), ("osd", "osd"), ("eng", "ell"), ("eng", "script/Greek"), ("eng", "Greek")):
        shutil.copy(MODELS / f"{name}.traineddata", folder / f"{place}.traineddata")
    monkeypatch.setenv("TESSDATA_PREFIX", str(folder))
    key = draw(ocr, GREEK)
    assert [one["script"] for one in ocr.read([key], languages=["eng"])["unread"]] == ["Greek"]
    for model in ("ell", "script/Greek", "Greek"):
        assert ocr.read([key], languages=["eng", model])["unread"] == [], model


def test_without_osd_nothing_is_named(ocr, tmp_path, monkeypatch):
    folder = tmp_path / "tessdata"
    folder.mkdir()
    shutil.copy(MODELS / "eng.traineddata", folder)
    monkeypatch.setenv("TESSDATA_PREFIX", str(folder))
    assert ocr.read([draw(ocr, RUSSIAN)], languages=["eng"])["unread"] == []
