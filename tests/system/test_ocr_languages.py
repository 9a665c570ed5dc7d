"""Languages and scripts: what pages in them read as, in which language each line is, and that it is found."""

import io
import json
import pathlib
import shutil

import pytest
from PIL import Image, ImageDraw, ImageFont
from test_ocr import FONT, Ocr, refusal, texts
from test_reindex import library  # noqa: F401 (a fixture)
from workers import wait_until

MIXED = {"deu": ["Der Hund schläft unter dem Tisch", "Danke für die Blumen", "Wir gehen morgen ins Kino",
                 "Ich habe keine Zeit"],
         "eng": ["The weather is good again today", "Please do not forget", "How much is this?",
                 "Thank you for the flowers"]}


@pytest.fixture
def ocr(program, tmp_path):
    return Ocr(program("ocr-worker"), tmp_path)


@pytest.fixture(scope="session")
def pages(fixtures_dir):
    """(JPEG, lines) of a page, by the model's name."""
    truth = json.loads((fixtures_dir / "scripts" / "truth.json").read_text())

    def page(name):
        picture = io.BytesIO()
        Image.open(fixtures_dir / "scripts" / f"{name}.png").convert("RGB").save(picture, "JPEG", quality=88)
        return picture.getvalue(), truth[name]
    return page


def read_page(ocr, picture, languages):
    result = ocr.read([ocr.put(0, picture)], languages=languages,
                      frames=[{"t_start": 0, "t_end": 3000}])
    return sorted(result["detections"], key=lambda row: row["bounding_box"]["y"])


@pytest.mark.sanitized(2)
@pytest.mark.parametrize("name,languages", [
    ("jpn", ["jpn"]), ("jpn", ["eng", "jpn"]), ("chi_sim", ["chi_sim"]), ("chi_sim", ["eng", "chi_sim"]),
    ("kor", ["kor"]), ("ara", ["ara"]), ("ara", ["eng", "ara"]), ("heb", ["heb"]), ("heb", ["eng", "heb"])])
def test_pages_read_as_they_are_written(ocr, pages, name, languages):
    """No blanks in Chinese and Japanese, those of the page in Korean, right to left in its order."""
    picture, lines = pages(name)
    rows = read_page(ocr, picture, languages)
    assert [row["text"] for row in rows] == lines
    assert {row["language"] for row in rows} == {name}


TWO_SCRIPTS = {"rus": ["Открыть Use Scenario", "Значение None задано", "Mono 30, Home и JSON", "Файл config.json сохранён"],
               "ell": ["Άνοιγμα Settings και Tar", "Θέση Home 2000", "Διαγραφή: False"]}


@pytest.mark.parametrize("name", TWO_SCRIPTS)
@pytest.mark.parametrize("is_first", [True, False])
def test_each_word_is_read_in_its_script(ocr, name, is_first):
    """Whichever model is named first."""
    result = ocr.read([ocr.draw(0, TWO_SCRIPTS[name])], languages=[name, "eng"] if is_first else ["eng", name])
    assert texts(result) == TWO_SCRIPTS[name]


@pytest.mark.parametrize("languages", [["eng", "deu"], ["deu", "eng"]])
def test_each_line_has_its_own_language(ocr, languages):
    lines = [(line, name) for pair in zip(MIXED["deu"], MIXED["eng"]) for line, name in zip(pair, MIXED)]
    result = ocr.read([ocr.draw(0, [line for line, _ in lines[:7]], size=32)], languages=languages)
    found = {row["text"]: row["language"] for row in result["detections"]}
    assert found == dict(lines[:7])


UNTOLD = {
    "pol": ["Dopiero wieczorem, około dziewiątej", "Mógłbyś kupić trochę świeżego chleba?", "Weź też żółty ser i jabłka",
            "Dziękuję, do zobaczenia później"],
    "ukr": ["Привіт, о котрій завтра їдемо?", "Візьми із собою теплу куртку", "Обіцяють дощ і сильний вітер"],
    "ell": ["Πάρε μαζί σου ένα ζεστό μπουφάν", "Λένε ότι θα βρέξει το απόγευμα", "Πόσοι θα είμαστε τελικά στο λιμάνι;"]}


@pytest.mark.parametrize("name", UNTOLD)
def test_nobody_has_to_name_a_language(ocr, name):
    result = ocr.read([ocr.draw(0, UNTOLD[name], size=32)])
    assert result["languages"].split("+")[0] == name and "eng" in result["languages"]
    told = ocr.read([ocr.key(0)], languages=[name])
    assert texts(result) == texts(told) and len(texts(result)) == len(UNTOLD[name])


def test_nobody_has_to_name_a_script(ocr, pages):
    """Nor where kept lines are read again."""
    picture, lines = pages("jpn")
    result = ocr.read([ocr.put(0, picture)], frames=[{"t_start": 0, "t_end": 3000}])
    assert sorted(texts(result)) == sorted(lines) and {row["language"] for row in result["detections"]} == {"jpn"}
    again = ocr.read(None, frame_paths=None, line_paths=[result["lines_path"]])
    assert texts(again) == texts(result) and again["languages"] == result["languages"] == "jpn+eng"


def test_a_part_of_a_page_is_in_another_script(ocr, fixtures_dir, pages):
    """No model reads all that is doubtful. One proves its script by what it reads."""
    page = Image.new("RGB", (1080, 900), "white")
    for name, y in (("kor", 300), ("heb", 500)):
        page.paste(Image.open(fixtures_dir / "scripts" / f"{name}.png").convert("RGB"), (20, y))
    for i, line in enumerate(MIXED["eng"][:3]):
        ImageDraw.Draw(page).text((60, 20 + 90 * i), line, font=ImageFont.truetype(FONT, 36), fill="black")
    picture = io.BytesIO()
    page.save(picture, "JPEG", quality=88)
    result = ocr.read([ocr.put(0, picture.getvalue())], frames=[{"t_start": 0, "t_end": 3000}])
    assert result["languages"] == "eng+heb"
    assert sorted(texts(result)) == sorted([*MIXED["eng"][:3], *pages("heb")[1]])


def test_a_language_does_not_read_worse_behind_another(ocr):
    key = ocr.draw(0, UNTOLD["pol"], size=32)
    both = ocr.read([key], languages=["eng", "pol"])
    assert both["languages"] == "pol+eng" and texts(both) == texts(ocr.read([key], languages=["pol"]))


def test_english_loads_no_other_model(ocr, tmp_path, monkeypatch):
    """All other models are empty files, with which the stage would fail."""
    folder = tmp_path / "tessdata"
    folder.mkdir()
    shutil.copy("/usr/share/tesseract-ocr/5/tessdata/eng.traineddata", folder)
    for name in ("deu", "fra", "pol", "rus", "jpn", "ell"):
        (folder / f"{name}.traineddata").touch()
    monkeypatch.setenv("TESSDATA_PREFIX", str(folder))
    assert texts(ocr.read([ocr.draw(0, MIXED["eng"])])) == MIXED["eng"]
    code, error = ocr.run([ocr.draw(0, UNTOLD["ukr"])])
    assert code != 0 and "Tesseract cannot load rus" in str(error), error


BY_DEFAULT = {"fra": ["Chaque étal vend du pain frais", "Près du vieux pont où nous avons marché"],
              "deu": ["Über die alte Brücke nach Köln", "Käse. @oskar_b #trailrun"],
              "eng": ["Thursday evening train leaves", "mara_lind 42 #vinyl"]}


def test_three_languages_of_one_page(ocr):
    """A line that is too short to tell is in the language of the one before it; names are in none."""
    lines = {line: name for name, lines in BY_DEFAULT.items() for line in lines}
    result = ocr.read([ocr.draw(0, list(lines), size=32)])
    assert set(result["languages"].split("+")) == {"eng", "deu", "fra"}
    lines["mara_lind 42 #vinyl"] = result["languages"].split("+")[0]
    assert {row["text"]: row["language"] for row in result["detections"]} == lines


def test_without_a_default_model_the_others_read(ocr, tmp_path, monkeypatch):
    folder = tmp_path / "tessdata"
    folder.mkdir()
    monkeypatch.setenv("TESSDATA_PREFIX", str(folder))
    page = [ocr.draw(0, BY_DEFAULT["deu"])]
    code, error = ocr.run(page)
    assert code == 78 and "eng, deu, fra" in str(error) and str(folder) in str(error), error
    for name in ("eng", "deu"):
        shutil.copy(f"/usr/share/tesseract-ocr/5/tessdata/{name}.traineddata", folder)
    result = ocr.read(page)
    assert result["languages"] == "deu+eng" and texts(result) == BY_DEFAULT["deu"]
    # what is named has to be there
    monkeypatch.setenv("CORTANA_LANGUAGES", "deu+fra")
    code, error = ocr.run(page)
    assert code == 78 and "CORTANA_LANGUAGES" in str(error) and "there are: deu, eng" in str(error), error
    monkeypatch.setenv("CORTANA_LANGUAGES", "deu")
    assert ocr.read(page)["languages"] == "deu"


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A folder of models as they are published: scripts in one of their own."""
    folder = tmp_path / "tessdata"
    (folder / "script").mkdir(parents=True)
    installed = pathlib.Path("/usr/share/tesseract-ocr/5/tessdata")
    for name, place in (("eng", "eng"), ("deu", "script/Latin"), ("jpn", "Japanese")):
        shutil.copy(installed / f"{name}.traineddata", folder / f"{place}.traineddata")
    monkeypatch.setenv("TESSDATA_PREFIX", str(folder))
    return folder


def test_models_of_scripts_by_name(ocr, models, pages):
    assert texts(ocr.read([ocr.draw(0, MIXED["deu"])], languages=["script/Latin"])) == MIXED["deu"]
    picture, lines = pages("jpn")  # where a distribution has it beside the others
    rows = read_page(ocr, picture, ["eng", "script/Japanese"])
    assert [row["text"] for row in rows] == lines
    refusal(ocr.run([ocr.draw(0, ["text"])], languages=["script/Latin2"]), "InvalidPayload",
            "there are: Japanese, eng, script/Latin")
    for name in ("script/../eng", "script/", "/eng", "script/script/Latin", "script//Latin", "osd", "eng\n"):
        refusal(ocr.run([ocr.draw(0, ["text"])], languages=[name]), "InvalidPayload", "languages")


def test_two_characters_find_a_line(library, pages):  # noqa: F811
    video = library.draw(["nothing"])
    for name, words in (("jpn", ["新幹", "京都", "旅行"]), ("chi_sim", ["公园", "高铁"]), ("heb", ["25 שקלים"]),
                        ("ara", ["الساعة"])):
        ocr = Ocr(None, library.store)
        ocr.video_id = video
        key = ocr.put(0, pages(name)[0])
        library.query("SELECT enqueue_job('ocr', %s, %s)", json.dumps(
            {"video_id": video, "frame_paths": [key], "languages": [name]}), video)
        wait_until(lambda: pages(name)[1][0] in library.texts(video), f"the text in {name}")
        assert library.wait(video) == "ready"
        for word in words:
            assert video in library.found(word), word
