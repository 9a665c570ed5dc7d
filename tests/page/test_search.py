"""The first page, search and the library in a real browser."""

import http.client
import json
import pathlib
import re
import uuid

import pytest
from api import ALICE, Gateway, token
from refusals import refusals
from screen import NARROW, in_both_browsers, on_desk_and_phone
from selenium.webdriver.common.keys import Keys

WEB = pathlib.Path(__file__).resolve().parents[2] / "web"


def get(place, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", place.gateway.port, timeout=300)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer, data


# ---- how the page is served ------------------------------------------------------------------------


def test_files_are_served_once(place):
    answer, data = get(place, "/style.css")
    assert answer.status == 200 and data == b"".join(path.read_bytes() for path in sorted(WEB.glob("style/*.css")))
    packed, short = get(place, "/style.css", Accept_Encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip" and len(short) < len(data) / 2
    again, nothing = get(place, "/style.css", If_None_Match=answer.headers["ETag"])
    assert again.status == 304 and nothing == b""
    assert get(place, "/robots.txt")[1] == b"User-agent: *\nDisallow: /\nAllow: /s/\nAllow: /api/v1/shared/\nAllow: /api/v1/oembed\n"


@pytest.mark.parametrize("path", ["/", "/videos", "/videos?status=ready", "/index.html",
                                  "/videos/0f0e0d0c-0000-4000-8000-000000000001"])
def test_screens_are_one_document_with_a_policy(place, path):
    answer, data = get(place, path)
    policy = answer.headers["Content-Security-Policy"]
    assert answer.status == 200 and data == (WEB / "index.html").read_bytes()
    assert "script-src 'self';" in policy and "unsafe" not in policy


def test_a_buckets_origin_is_in_the_policy_and_nothing_else(place, program, shared_cluster, tmp_path):
    bucket = {"STORE_URL": "s3://films/ours", "S3_ENDPOINT": "http://127.0.0.1:9999", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "none"}
    gateway = Gateway(program, shared_cluster.url(place.name), tmp_path, "--connections", "1", **bucket)
    try:
        connection = gateway.connect()
        connection.request("GET", "/")
        policy = dict(part.strip().split(" ", 1) for part in connection.getresponse().headers["Content-Security-Policy"].split(";"))
    finally:
        gateway.end()
    for name in ("img-src", "media-src", "connect-src"):
        assert policy[name].split()[-1] == "http://127.0.0.1:9999", name
    assert policy["script-src"] == policy["style-src"] == "'self'"


@pytest.mark.parametrize("path", ["/nothing", "/app.jsx", "/app", "/../gateway/main.c", "/vendor/README.md", "/style",
                                  "/style.css/", "/style/base.css", "/videosX"])
def test_other_paths_are_nothing(place, path):
    answer, data = get(place, path)
    assert answer.status == 404 and json.loads(data)["type"] == "/problems/not-found"


def test_the_page_is_written_as_its_policy_wants_it():
    for path in WEB.rglob("*.js"):
        if path.parent.name != "vendor":
            text = path.read_text()
            assert not re.search(r"innerHTML|outerHTML|\beval\(|\bstyle=|https?://(?!www\.w3\.org)", text), path
            assert len(text.splitlines()) < 400, path


def test_every_text_is_there_in_every_language():
    texts = {name: json.loads((WEB / "lang" / f"{name}.json").read_text()) for name in ("en", "de")}
    assert texts["en"].keys() == texts["de"].keys()
    for key, text in texts["en"].items():
        names = [set(re.findall(r"\{(\w+)\}", json.dumps(one[key]))) for one in texts.values()]
        assert names[0] == names[1], key
        assert isinstance(text, str) == isinstance(texts["de"][key], str), key
    used = {key for path in WEB.rglob("*.js") for key in re.findall(r"\bt\('([^'$]+)'", path.read_text())}
    fields = set(re.findall(r"'(\w+):':", (WEB / "query.js").read_text()))
    used |= {f"{start}.{one}" for start in ("field", "field.name") for one in fields}
    assert used <= texts["en"].keys()
    read = re.search(r"FUNCTION cortana.search_fields\(\)[^']*'([a-z ]+)'", (WEB.parent / "sql/migrations/0009_search.sql").read_text())
    assert fields == set(read[1].split()), "the page offers the fields that a query may have"


VALUE = re.compile(r"\{t?(\d)\}")  # in a translation of a refusal


def translations():
    return json.loads((WEB / "lang" / "refusals.de.json").read_text())


def test_every_refusal_has_a_translation_and_every_translation_a_refusal():
    kinds = {key.removeprefix("problem.") for key in json.loads((WEB / "lang" / "en.json").read_text()) if key.startswith("problem.")}
    wanted, there = refusals(kinds), translations()
    assert (sorted(wanted - there.keys()), sorted(there.keys() - wanted)) == ([], [])
    for words, text in there.items():
        assert sorted(VALUE.findall(text)) == [str(n + 1) for n in range(words.count("%"))], words


# ---- signing in ------------------------------------------------------------------------------------


@in_both_browsers
def test_the_link_signs_in_and_leaves_no_token_in_the_address(screen):
    screen.open("/")
    screen.see(".card")
    assert screen.driver.current_url == f"{screen.url}/"


def test_who_is_not_signed_in_is_asked_and_goes_on(screen):
    screen.open("/?q=bridge", is_signed_in=False)
    button = screen.see("dialog[open] form.account button")
    off = screen.script("const range = new Range(); range.selectNodeContents(arguments[0]); const [word, box] = [range, arguments[0]].map("
                        "(one) => one.getBoundingClientRect()); return word.left + word.right - box.left - box.right", button)
    assert abs(off) < 2, "its words are in its middle"
    screen.see("dialog[open] summary").click()
    field = screen.see("dialog[open] input[name=token]")
    field.send_keys("not.a.token", Keys.ENTER)
    assert "not valid" in screen.see("dialog[open] .fault").text
    field.clear()
    field.send_keys(f"{screen.url}/#t={screen.token}", Keys.ENTER)
    screen.see(".hit mark")


# ---- searching -------------------------------------------------------------------------------------


def test_search_marks_what_was_found_by_video(screen):
    screen.open("/")
    screen.see(".start cv-search-box input")
    screen.press("/")
    screen.press("old bridge", Keys.ENTER)
    screen.see(".group .hit")
    assert screen.driver.current_url.endswith("/?q=old%20bridge")
    assert {mark.text.lower() for mark in screen.all(".hit mark")[:5]} <= {"old bridge", "old", "bridge"}
    assert len(screen.all(".group")) > 1
    assert re.fullmatch(r"1 line|\d+ lines", screen.all(".group h2 small")[0].text)


@in_both_browsers
def test_results_by_keyboard(screen):
    screen.open("/?q=bridge")
    screen.see(".hit")
    screen.script("document.querySelector('main').focus()")
    screen.press(Keys.ARROW_DOWN)
    screen.press(Keys.ARROW_DOWN)
    links = screen.all("a.hit")
    assert screen.driver.switch_to.active_element == links[1]
    wanted = links[1].get_attribute("href")
    screen.press(Keys.ENTER)
    screen.see("cv-transcript li.now mark")
    assert screen.driver.current_url == wanted


@on_desk_and_phone("screen")
def test_fields_are_offered_and_become_chips(screen):
    screen.open("/?q=bridge")
    field = screen.see("header cv-search-box input")
    field.click()
    field.send_keys(" la")
    screen.see("[role=option]", "lang:")
    field.send_keys(Keys.ARROW_DOWN, Keys.ENTER, "eng", Keys.ENTER)
    chip = screen.see(".chip.on", "eng")
    screen.see(".hit")
    chip.click()
    screen.wait(lambda: screen.driver.current_url.endswith("?q=bridge"), "the field to go")
    screen.search("bridge source:screen")
    screen.see(".chip.on b", "source")


def test_kinds_narrow_the_results(screen):
    screen.open("/?q=bridge")
    screen.see(".hit")
    screen.see(".facets summary", "Lines with").click()
    screen.see(".facet", "Mentions").click()
    screen.wait(lambda: "kind=mention" in screen.driver.current_url, "the kind in the address")
    screen.wait(lambda: (lines := screen.all(".hit .line")) and all("@" in line.text for line in lines), "mentions alone")


def test_suggestions_come_of_the_library(screen):
    screen.open("/?q=bridge")
    field = screen.see("header cv-search-box input")
    field.click()
    field.send_keys(" kind:ha")
    screen.see("[role=option]", "kind:hashtag").click()
    assert field.get_attribute("value") == "bridge kind:hashtag "
    field.send_keys("@ann")
    screen.see("[role=option]", "@anna")


def test_a_query_without_a_word_asks_for_one(screen, place):
    screen.open(f"/?q=video:{place.film}")
    screen.see("[data-state=empty]", "Type what to look for")
    field = screen.see("header cv-search-box input")
    field.send_keys(" harbour", Keys.ENTER)
    screen.see(".hit mark")


@on_desk_and_phone("screen")
def test_a_result_shows_its_frame_with_a_box(screen, place):
    screen.open("/?q=harbour")
    screen.see(f"a.hit[href*='{place.film}']")
    card = next(one for one in screen.all("cv-result") if place.film in one.get_attribute("innerHTML"))
    box, frame = screen.wait(lambda: screen.script(
        "const box = arguments[0].querySelector('.frame .box'); const edges = ({x, y, right, bottom}) => [x, y, right, bottom];"
        " return box && !box.hidden && [edges(box.getBoundingClientRect()), edges(box.parentElement.getBoundingClientRect())]", card), "the box")
    assert all(low - 1 <= value for low, value in zip(frame[:2], box[:2], strict=True)), (box, frame)
    assert all(value <= high + 1 for high, value in zip(frame[2:], box[2:], strict=True)), (box, frame)
    assert card.find_elements("css selector", ".where-strip path")


def test_a_line_is_made_a_picture(screen, place):
    screen.open("/?q=harbour")
    line = screen.see("a.hit").get_attribute("data-segment")
    screen.script("arguments[0].click()", screen.wait(lambda: screen.all(".hit + button.quote"), "the button")[0])
    asked = screen.wait(lambda: place.queue.run("DELETE FROM jobs WHERE payload ? 'quote' RETURNING payload -> 'quote' AS quote"), "the job")[0]["quote"]
    (said,) = place.queue.run("SELECT s.text, v.title FROM segments s JOIN videos v ON v.id = s.video_id WHERE s.id = %s", line)
    assert said["text"] in asked["alt"] and asked["lines"][0] == said["title"] and place.url in asked["lines"][-1]


def test_what_a_pointer_uncovers_is_there_for_fingers(screen):
    screen.resize(*NARROW)
    screen.touch()
    screen.open("/?q=harbour")
    screen.see(".hit + button.quote")
    assert screen.script("""const [hit, button] = [...document.querySelectorAll('.hit, .quote')].slice(0, 2);
        const [line, edge] = [hit.getBoundingClientRect(), button.getBoundingClientRect()];
        return matchMedia('(hover: none)').matches && getComputedStyle(button).opacity === '1' && line.right <= edge.left + 1 && edge.right <= innerWidth""")


def test_all_that_was_found_is_made_one_film(screen, place):
    screen.open("/?q=harbour")
    screen.see("cv-reel button").click()
    (job,) = screen.wait(lambda: place.queue.run("SELECT id, video_id, payload FROM jobs WHERE payload ? 'parts'"), "the job")
    assert screen.see("cv-reel progress") and not screen.see("cv-reel button").is_enabled()
    name = f"videos/clips/{job['video_id']}/{job['payload']['clip_id']}.mp4"
    place.queue.run("UPDATE jobs SET status = 'processing', locked_by = 'w', locked_until = now() + interval '1 hour' WHERE id = %s", job["id"])
    place.queue.run("UPDATE jobs SET status = 'done', result = jsonb_build_object('clip_path', %s::text, 'left_out', '[{}]'::jsonb) WHERE id = %s", name, job["id"])
    assert name in screen.see("cv-reel a[download]").get_attribute("href")
    number = len(job["payload"]["parts"])
    screen.see("cv-toasts div", f"The film shows {number - 1} of {number} places. 1 cannot be shown.")
    place.queue.run("DELETE FROM jobs WHERE id = %s", job["id"])
    screen.open("/?q=bridge")
    screen.see("cv-reel button")


def test_all_lines_of_a_video_are_one_step_away(screen, place):
    screen.open("/?q=bridge")
    card = screen.see("cv-result")
    said = int(card.find_element("css selector", "h2 small").text.split()[0])
    for button in card.find_elements("css selector", ".more"):
        assert button.text.startswith(f"{said - 3} more")
        button.click()
    screen.wait(lambda: len(card.find_elements("css selector", ".hit")) == said, "all of its lines")


def test_a_long_line_is_shown_around_what_was_found(screen, place):
    text = "filler " * 400 + "zebracorn"
    place.queue.write_text(place.videos[-1], [text])
    screen.open("/?q=zebracorn")
    mark = screen.see(".hit mark", "zebracorn")
    assert len(mark.find_element("xpath", "..").text) < 120


def test_the_first_page_has_names_of_the_library_and_a_place_to_drop_a_video(screen, place):
    screen.open("/")
    screen.see(".start .examples a", "@anna")
    newcomer = token(sub=str(uuid.uuid4()), exp=2000000000)
    screen.driver.delete_all_cookies()
    screen.driver.get(f"{screen.url}/#t={newcomer}")
    screen.driver.refresh()
    screen.see(".drop-field", "Upload a recording")


def test_a_sign_alone_lists_the_names(screen):
    screen.open("/?q=%40")
    screen.see(".examples a", "@anna").click()
    screen.see(".hit mark")


def test_results_are_sorted(screen):
    screen.open("/?q=harbour")
    screen.see(".hit")
    screen.see(".head select option", "newest video").click()
    screen.wait(lambda: "sort=newest" in screen.driver.current_url, "the order in the address")
    screen.see(".hit")


@on_desk_and_phone("screen")
def test_more_results_follow_and_back_finds_the_place(screen):
    screen.open("/?q=bridge")
    screen.see(".hit")
    screen.wait(lambda: screen.script("scrollTo(0, document.body.scrollHeight)") or
                not screen.all(".skeletons, .end"), "the last results")
    assert screen.script("return performance.getEntriesByType('resource').some((one) => one.name.includes('cursor='))"), "all came at once"
    link = screen.all("a.hit")[-3]
    screen.script("arguments[0].scrollIntoView({block: 'center'})", link)
    screen.wait(lambda: screen.script("return history.state.y === scrollY"), "the place to be remembered")
    wanted, line = screen.script("return scrollY"), link.get_attribute("data-segment")
    link.click()
    screen.see("cv-transcript li")
    screen.driver.back()
    screen.see(f"[data-segment='{line}']")
    screen.wait(lambda: abs(screen.script("return scrollY") - wanted) < 4, "the page to be where it was")


def test_a_saved_search_is_asked_of_new_videos(screen, place):
    screen.open("/?q=lighthouse&kind=hashtag")
    screen.see("[data-state=empty]")
    screen.see("button[title='Save the search']").click()
    screen.see("button[title='Delete the saved search']")
    video = place.queue.value("INSERT INTO videos (owner_id, title, original_name, s3_original_path, status, duration) VALUES"
                              " (%s, 'The coast', 'coast.mp4', 'videos/original/x/master.mp4', 'ready', 60) RETURNING id::text", ALICE)
    try:
        place.queue.write_text(video, ["a #lighthouse at dusk"], t_start=12000, t_end=14000, entities=[{"type": "hashtag", "value": "#lighthouse"}])
        screen.open("/")
        screen.see(".saved a", "1 new alerts").click()
        screen.see(".alerts .badge", "New")
        assert screen.see(".alerts h2").text.startswith("The coast")
        screen.see(".alerts ol a", "0:12").click()
        screen.see("cv-transcript li.found", "lighthouse")
        assert "t=12" in screen.driver.current_url
        screen.open("/alerts")
        screen.see(".alerts h2", "The coast")
        assert not screen.all(".alerts .badge")
        screen.see("table button", "Delete the saved search").click()
        screen.see("[data-state=empty]", "No alerts")
    finally:
        place.queue.run("DELETE FROM videos WHERE id = %s", video)
        place.queue.run("DELETE FROM saved_searches")


def test_nothing_found_says_which_word_to_leave_out(screen):
    screen.open("/?q=bridge%20lang%3Afra")
    screen.see("[data-state=empty]", "Nothing found")
    screen.see(".hints a").click()
    screen.see(".hit")


def test_nothing_found_says_which_scripts_no_model_has_read(screen, place):
    screen.open("/?q=nowheretobefound")
    screen.see("[data-state=empty]", "Nothing found")
    assert not screen.all(".unread")
    place.queue.run("INSERT INTO unread_lines (video_id, read_by, script, lines) VALUES (%s, 'ocr/0', 'Cyrillic', 8)", place.videos[3])
    try:
        screen.open("/?q=nowhereeither")
        assert "Lines in Cyrillic may be missing here, because no model has read them" in screen.see(".unread").text
    finally:
        place.queue.run("DELETE FROM unread_lines")


@pytest.mark.parametrize("path, english, german", [
    ("/?q=-lang%3Aeng", "-lang: is not known: fields can be asked for", "-lang: gibt es nicht: nach Feldern lässt sich suchen"),
    ("/?q=bridge&sort=size", "sort: must be one of rank", "sort: muss eines davon sein: rank"),
    (f"/videos/{uuid.uuid4()}", "there is nothing here that you may see", "hier ist nichts, was Sie sehen dürfen")], ids=["detail", "errors", "missing"])
def test_what_the_server_refuses_is_said_in_the_readers_language(screen, path, english, german):
    """The words come with the first refusal, to those who need them; where they do not come, the server's own are shown."""
    asked = "return performance.getEntriesByType('resource').filter(({name}) => name.includes('refusals')).length"
    screen.open(path)
    assert english in screen.see("[data-state=failed]").text and screen.script(asked) == 0
    with screen.words("de"):
        screen.open("/")
        screen.see(".start h1")
        assert screen.script(asked) == 0
        screen.driver.get(f"{screen.url}{path}")
        assert german in screen.see("[data-state=failed]").text and screen.script(asked) == 2
        screen.driver.execute_cdp_cmd("Network.enable", {})
        screen.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/refusals*"]})
        try:
            screen.driver.get(f"{screen.url}{path}")
            assert english in screen.see("[data-state=failed]").text
        finally:
            screen.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})


def test_each_refusal_is_found_by_its_own_words(screen):
    def fill(words):
        count = iter(range(1, 10))
        return re.sub("%", lambda _: f"value {next(count)}", words)

    with screen.words("de"):
        screen.open("/")
        screen.see(".start h1")
        found = screen.driver.execute_async_script("""const [texts, done] = arguments;
            import('/refusals.js').then(({inReadersLanguage}) => Promise.all(texts.map((detail) => inReadersLanguage({detail}))))
                .then((bodies) => done(bodies.map(({detail}) => detail)), (fault) => done([String(fault)]));""", [
            *map(fill, translations()), "command gc: args.days is more than 5", "this job is done; only jobs that wait or run can be canceled", "no such text"])
    assert found == [*(VALUE.sub(r"value \1", text) for text in translations().values()), "Befehl gc: args.days ist größer als 5",
                     "dieser Auftrag ist fertig; nur Aufträge, die warten oder laufen, lassen sich abbrechen", "no such text"]


def test_when_the_server_is_away_the_page_says_so_and_recovers(screen):
    screen.open("/videos")
    screen.see(".card")
    screen.driver.execute_cdp_cmd("Network.enable", {})
    away = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    screen.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": True, **away})
    screen.see(".tabs a", "Failed").click()
    screen.see(".away")
    screen.driver.execute_cdp_cmd("Network.emulateNetworkConditions",
                                  {**away, "offline": False, "downloadThroughput": -1, "uploadThroughput": -1})
    screen.see("[data-state=failed] button").click()
    screen.see(".card")
    screen.wait(lambda: not screen.all(".away"), "the bar to go")


def test_a_server_that_hangs_is_noticed(screen):
    """A line shows that one waits, and after a while a word; what the page asks for by itself shows neither."""
    screen.open("/videos")
    screen.see(".card")
    screen.script("window.real = window.fetch; window.fetch = () => new Promise((done) => { window.go = () => { window.fetch = window.real; done(real('/api/v1/videos')); }; });")
    screen.see(".tabs a", "Failed").click()
    screen.see(".progress-line")
    assert not screen.all(".away")
    screen.see(".away", "The server is slow")
    screen.script("window.go()")
    screen.wait(lambda: not screen.all(".away") and screen.all(".progress-line[hidden]"), "the line to go")


# ---- the library -----------------------------------------------------------------------------------


def test_the_library_goes_on_to_its_end(screen, place):
    screen.open("/videos")
    screen.see(".card")
    screen.wait(lambda: screen.script("scrollTo(0, document.body.scrollHeight)") or
                len(screen.all(".card")) == place.queue.value("SELECT count(*)::int FROM videos"), "all videos")
    assert not screen.all(".end")


def test_the_library_by_state(screen, place):
    screen.open("/videos?status=processing")
    screen.see(".card .badge")
    expected = place.queue.value("SELECT count(*)::int FROM videos WHERE status = 'processing'")
    assert len(screen.all(".card")) == expected
    assert {card.get_attribute("data-status") for card in screen.all(".card")} == {"processing"}


def test_the_library_by_day(screen, place):
    days = place.queue.value("SELECT array_agg(DISTINCT (created_at AT TIME ZONE 'UTC')::date::text) FROM videos")
    day = sorted(days)[-3]
    expected = place.queue.value("SELECT array_agg(id::text) FROM videos WHERE (created_at AT TIME ZONE 'UTC')::date = %s::date", day)
    screen.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})
    try:
        screen.open(f"/videos?after={day}")
        screen.see(".card")
        field = screen.see("input[name=before]")
        screen.script("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))", field, day)
        screen.wait(lambda: {one.get_attribute("data-id") for one in screen.all(".card")} == set(expected), "the videos of the day")
        assert f"before={day}" in screen.driver.current_url
        screen.see(".filters button", "Any day").click()
        screen.wait(lambda: len(screen.all(".card")) > len(expected), "the others")
    finally:
        screen.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})


def test_words_in_german_and_colours_by_choice(screen):
    screen.open("/videos")
    screen.see(".card")
    screen.see(".tools .words").click()
    screen.see("h1", "Videos")
    assert screen.script("return document.documentElement.lang") == "de"
    ground = screen.script("return getComputedStyle(document.documentElement).backgroundColor")
    screen.see("button[aria-label='Farben: wie das System']").click()
    screen.see("button[aria-label='Farben: hell']").click()
    screen.see("button[aria-label='Farben: dunkel']")
    assert screen.script("return getComputedStyle(document.documentElement).backgroundColor") != ground
