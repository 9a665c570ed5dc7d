"""Lines in a script that no model reads: its name is in the stage's result, in the database, on the command line and in the API."""

import io
import json
import pathlib
import shutil
import subprocess
import urllib.parse

import pytest
from local_installation import finish, start
from PIL import Image, ImageDraw, ImageFont
from pipeline import Pipeline
from test_ocr import FONT, Ocr, texts
from test_run import ask, read_until
from workers import wait_until

MODELS = pathlib.Path("/usr/share/tesseract-ocr/5/tessdata")
ENGLISH = ["Thursday evening train leaves", "see @dev_marcus about #coffee", "the harbour bridge is closed",
           "tickets cost 1,204 or $19.99", "please do not forget the milk", "how much is a loaf of bread",
           "thank you for the flowers", "we meet at the old station"]
RUSSIAN = ["Жители города вышли на площадь", "Ещё один день хорошей погоды", "Съешь же ещё этих булок",
           "Южный ветер усилится к ночи", "Школьники пишут изложение", "Цены на жильё снова выросли",
           "Почему журналисты ждут ответа", "Объявлен конкурс чтецов", "Футбол: ничья в Нижнем",
           "Для жителей открыли музей", "Дождь пройдёт в понедельник", "Выставка цветов в июле"]
SPANISH = ["El próximo sábado habrá un concierto", "Mañana no abre la panadería", "Después cenamos todos en la montaña",
           "¿Cuándo llega el tren de Sevilla?", "La reunión será en el salón grande", "Nadie sabía dónde estaba el niño"]
GREEK = ["Ψηφίστηκε ο νέος νόμος", "Καλημέρα σε όλους σας", "Ξεκινά η έκθεση βιβλίου", "Θάλασσα και ήλιος φέτος",
         "Δύο φίλοι στο λιμάνι", "Λύση για τη γέφυρα", "Πλήθος κόσμου στην πλατεία", "Φωτιά σε δάσος της Εύβοιας"]


def picture_of(lines):
    picture = Image.new("RGB", (1280, 96 + 72 * len(lines)), "white")
    font = ImageFont.truetype(FONT, 34)
    for i, line in enumerate(lines):
        ImageDraw.Draw(picture).text((60, 48 + 72 * i), line, fill="black", font=font)
    return picture


def draw(ocr, lines):
    jpeg = io.BytesIO()
    picture_of(lines).save(jpeg, "JPEG", quality=90)
    return ocr.put(0, jpeg.getvalue())


@pytest.fixture
def ocr(program, tmp_path):
    return Ocr(program("ocr-worker"), tmp_path)


@pytest.mark.parametrize("lines,script", [(RUSSIAN, "Cyrillic"), (GREEK, "Greek")])
def test_a_script_without_a_model_is_named(ocr, lines, script):
    result = ocr.read([draw(ocr, lines)], languages=["eng"])
    (unread,) = result["unread"]
    assert unread["script"] == script and 4 <= unread["lines"] <= len(lines), result
    # The same of the lines that are kept.
    again = ocr.read(None, frame_paths=None, line_paths=[result["lines_path"]], languages=["eng"])
    assert again["unread"] == result["unread"]


def test_what_is_read_is_not_named(ocr, monkeypatch):
    monkeypatch.delenv("TESSDATA_PREFIX")  # the models are read where Debian has them
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


def test_a_language_without_its_model_is_named(ocr, tmp_path, monkeypatch):
    """Above English lines; the model's name alone says what it reads."""
    key = draw(ocr, SPANISH + ENGLISH)
    (unread,) = ocr.read([key], languages=["eng"])["unread"]
    assert unread["script"] == "spa" and 4 <= unread["lines"] <= len(SPANISH), unread
    folder = tmp_path / "tessdata"
    (folder / "script").mkdir(parents=True)
    for name in ("eng", "spa", "script/Latin"):
        shutil.copy(MODELS / "eng.traineddata", folder / f"{name}.traineddata")
    monkeypatch.setenv("TESSDATA_PREFIX", str(folder))
    for model in ("spa", "script/Latin"):
        assert ocr.read([key], languages=["eng", model])["unread"] == [], model


def test_a_few_foreign_words_name_no_language(ocr):
    assert ocr.read([draw(ocr, ENGLISH + SPANISH[:1])], languages=["eng"])["unread"] == []


# ---- parts, and other models -----------------------------------------------------------------------


@pytest.fixture
def pipeline(program, database, sql, store_dir, tmp_path):
    """Workers with a model that is called Russian, and reads it as the English one does."""
    folder = tmp_path / "tessdata"
    folder.mkdir()
    for name, source in (("eng", "eng"), ("osd", "osd"), ("rus", "eng")):
        shutil.copy(MODELS / f"{source}.traineddata", folder / f"{name}.traineddata")
    running = Pipeline(program, database, sql, store_dir, tmp_path, TESSDATA_PREFIX=str(folder), CORTANA_LANGUAGES="eng")
    yield running
    running.stop()


def two_pages(folder):
    """Six Russian lines for four seconds, then six others; key frames every two seconds."""
    for number, lines in enumerate((RUSSIAN[:6], RUSSIAN[6:])):
        picture_of(lines).save(folder / f"{number}.png")
    subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-framerate", "1/4", "-i", folder / "%d.png", "-vf", "fps=10", "-g", "20",
                    "-sc_threshold", "0", "-preset", "ultrafast", "-pix_fmt", "yuv420p", folder / "pages.mp4"], check=True)
    return folder / "pages.mp4"


def test_parts_add_up_and_another_run_takes_their_place(pipeline, tmp_path):
    def parts():
        return pipeline.query("SELECT read_by, script, lines FROM unread_lines WHERE video_id = %s ORDER BY 1, 2", video)

    pipeline.start("sample", "ocr", "segment_index")
    video = pipeline.submit(two_pages(tmp_path), workflow="video_text", part_seconds=4)
    assert pipeline.wait(video) == "ready", pipeline.failures()
    many = parts()
    assert len(many) > 1 and {script for _, script, _ in many} == {"Cyrillic"} and many[0][0] != many[1][0], many
    assert pipeline.query("SELECT unread_scripts(ARRAY[%s]::uuid[])", video) == [([{"kind": "lines", "script": "Cyrillic",
        "lines": sum(row[2] for row in many), "videos": 1, "video": video}],)]

    pipeline.query("SELECT start_run('video_text', '{\"part_seconds\": 0}', %s)", video)
    pipeline.query("UPDATE videos SET status = 'new' WHERE id = %s", video)
    assert pipeline.wait(video) == "ready", pipeline.failures()
    (whole,) = parts()
    assert whole[:2] == ("ocr/0", "Cyrillic") and 4 <= whole[2] <= len(RUSSIAN)

    pipeline.query("SELECT reindex_video(%s, '{eng,rus}')", video)
    wait_until(lambda: pipeline.query("SELECT status FROM runs WHERE workflow = 'reindex'") == [("done",)], "read again")
    assert parts() == []


# ---- where a user sees it --------------------------------------------------------------------------


def film(folder, lines):
    picture_of(lines).save(folder / "page.png")
    subprocess.run(["ffmpeg", "-nostdin", "-y", "-v", "error", "-loop", "1", "-i", folder / "page.png", "-t", "2", "-r", "10", "-vf",
                    "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", folder / "film.mp4"], check=True)
    return folder / "film.mp4"


def test_everybody_is_told_which_package_reads_it(program, data, tmp_path):
    told = "apt-get install tesseract-ocr-script-cyrl, then cortana reindex --languages eng+script/Cyrillic"
    path = film(tmp_path, RUSSIAN)
    code, output, errors = finish(start(program, data, "run", path, "--languages", "eng", "--text-only", "--no-page"))
    assert code == 0 and f" lines are in Cyrillic, which no model has read: {told} " in output, output + errors
    code, output, errors = finish(start(program, data, "run", path, "--json", "--no-page", "--text-only"))
    (video,) = [json.loads(line) for line in output.splitlines() if '"unread"' in line]
    assert code == 0 and [one["script"] for one in video["unread"]] == ["Cyrillic"], output + errors
    code, output, errors = finish(start(program, data, "search", "Съешь"))
    assert code == 1 and output == "" and told in errors, output + errors
    _, output, errors = finish(start(program, data, "doctor"))
    assert f"warn  scripts      {video['unread'][0]['lines']} lines are in Cyrillic" in output and told in output, output + errors

    running = start(program, data, "run")
    try:
        page = urllib.parse.urlsplit(read_until(running.stderr, "page: ").split()[1])
        assert ask(page, f"videos/{video['video']}")["unread"] == video["unread"]
        found = ask(page, "search?" + urllib.parse.urlencode({"q": "Съешь"}))
        assert found["items"] == [] and found["unread"] == video["unread"]
    finally:
        running.terminate()
        finish(running)
    path = film(tmp_path, SPANISH)
    code, output, errors = finish(start(program, data, "run", path, "--languages", "eng", "--text-only", "--no-page"))
    told = "in the language 'spa', which no model has read: apt-get install tesseract-ocr-spa, then cortana reindex --languages eng+spa "
    assert code == 0 and told in output, output + errors
    code, output, errors = finish(start(program, data, "delete", "last"))
    assert code == 0, output + errors
    # With the video goes what is told of it.
    code, output, errors = finish(start(program, data, "delete", "last"))
    assert code == 0, output + errors
    _, output, errors = finish(start(program, data, "doctor"))
    assert "no video has lines in one that no model reads" in output, output + errors
