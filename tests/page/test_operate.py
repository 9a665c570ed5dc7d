"""What operators look at and change: queues, jobs in numbers, runs, workers, failures, and the rules of all that."""

import re

import pytest
from api import ALICE
from screen import NARROW, WIDE, in_both_browsers, on_desk_and_phone
from screens import path_at
from selenium.webdriver.common.keys import Keys


def dead(place, number, error="NoSpeech"):
    ids = []
    for _ in range(number):
        ids.append(place.queue.add("embed", video_id=place.film))
        place.queue.fail(place.queue.claim_one("embed"), error, retryable=False)
    return ids


@on_desk_and_phone("operator")
def test_one_job_or_run_leads_to_the_other_screens(operator, place):
    for path, here in ((path_at(place, "/jobs/FAILED"), "Jobs"), (f"/runs/{place.runs[0]}", "Runs")):
        operator.open(path)
        operator.wait(lambda: operator.script("return document.querySelector('.places [aria-current]')?.textContent === arguments[0] &&"
                                              " document.querySelectorAll('.places a').length === 19", here), "the way to all of them")
        operator.see(".places select option:checked" if operator.script("return innerWidth < 900") else ".places a", here)


def test_the_overview_says_what_needs_somebody_and_what_failed(operator, place):
    place.queue.add("embed", video_id=place.film)
    operator.open("/overview")
    operator.see(".why-box a", "Learning the meaning: no worker takes these jobs")
    operator.see("tbody tr .badge.failed")
    operator.see(".places a[aria-current]", "Overview")
    assert [one.text for one in operator.all(".places h2")] == ["Now", "Fleet", "Automation", "Administration"]
    place.queue.run("SELECT cancel_job(id) FROM jobs WHERE job_type = 'embed' AND status = 'queued'")


def test_an_unknown_address_is_a_page_that_leads_on(operator):
    operator.driver.get(f"{operator.url}/nope")
    operator.see("h1", "There is no such page")
    operator.see(".state a").click()
    operator.see(".start h1")


@in_both_browsers
def test_queues_are_cards_that_follow_the_work(operator, place):
    operator.open("/queues")
    card = operator.see(".queue[data-type=ocr]")
    waiting = place.queue.value("SELECT count(*)::int FROM jobs WHERE job_type = 'ocr' AND status = 'queued' AND is_ready")
    assert str(waiting) in card.text and card.get_attribute("data-state") in ("working", "waiting")
    assert len(operator.all(".chart rect.done")) > 50 and operator.see(".queue[data-type=ocr] .spark")
    operator.script("""const real = window.fetch;
        window.fetch = async (url, more) => {
            const answer = await real(url, more);
            await (/stats.queues/.test(url) && new Promise((come) => { window.come = come; }));
            return answer;
        };
        window.late = document.querySelector('screen-queues').load();
        window.fetch = real;""")
    operator.see(".queue[data-type=ocr] button", "Pause").click()
    operator.see(".queue[data-type=ocr][data-state=paused]", "paused on the page")
    operator.wait(lambda: operator.script("return !!window.come"), "an answer from before")
    assert operator.script("window.come(); return window.late.then(() => document.querySelector('.queue[data-type=ocr]').dataset.state)") == "paused"
    assert place.queue.value("SELECT paused_at IS NOT NULL FROM job_types WHERE name = 'ocr'")
    operator.see(".queue[data-type=ocr] button", "Resume").click()
    operator.wait(lambda: operator.all(".queue[data-type=ocr]:not([data-state=paused])"), "it to go on")
    place.queue.add("webhook")  # other tests may have left some
    ready = place.queue.value("SELECT count(*)::int FROM jobs WHERE job_type = 'webhook' AND status = 'queued' AND is_ready")
    operator.wait(lambda: [one.text for one in operator.all(".queue[data-type=webhook] .ready b")] == [str(ready)], "the new job")
    operator.see(".queue[data-type=ocr] .ready").click()
    operator.see("tbody tr")
    assert "type=ocr" in operator.driver.current_url and "state=queued" in operator.driver.current_url


@on_desk_and_phone("operator")
def test_many_jobs_are_tried_again_after_their_number_was_seen(operator, place):
    ids = dead(place, 3)
    operator.open("/failures")
    operator.see("tbody tr", "NoSpeech").find_element("css selector", "button").click()
    operator.see("dialog[open] p", "3 jobs will wait")
    assert len(operator.all("dialog[open] .sample li")) == 3
    assert place.queue.value("SELECT count(*)::int FROM jobs WHERE id = ANY (%s::uuid[]) AND status = 'failed'", ids) == 3
    operator.see("dialog[open] button.main", "Retry 3 jobs").click()
    operator.see("cv-toasts p", "3 jobs wait again")
    assert place.queue.value("SELECT count(*)::int FROM jobs WHERE id = ANY (%s::uuid[]) AND status = 'queued'", ids) == 3
    operator.open("/jobs?type=embed&state=queued")
    operator.see(".filters button", "Cancel all").click()
    operator.see("dialog[open] button.main", "Cancel 3 jobs").click()
    operator.wait(lambda: place.queue.value("SELECT count(*)::int FROM jobs WHERE id = ANY (%s::uuid[]) AND status = 'canceled'",
                                            ids) == 3, "them to be canceled")


# Events as the gateway sends them while work never stops; and how often lists are asked for.
CONSTANT = """const real = window.fetch;
    [window.told, window.asked] = [0, 0];
    window.fetch = (url, wishes) => {
        window.asked += /v1.(stats.queues|runs.)/.test(String(url)) ? 1 : 0;
        return real(url, wishes);
    };
    const channel = new BroadcastChannel('cv-live');
    window.tell = () => channel.postMessage({kind: arguments[0], data: arguments[1], last: ''}, window.told++);
    window.constant = setInterval(window.tell, 50);"""


@pytest.mark.parametrize("path, kind", [("/queues", "queues"), ("/runs/RUN", "run")])
def test_lists_go_on_while_work_never_stops(operator, place, path, kind):
    operator.open(path.replace("RUN", place.runs[1]))
    operator.see(".queue, .graph")
    operator.script(CONSTANT, kind, {"id": place.runs[1]})
    try:
        operator.wait(lambda: operator.script("return window.asked") > 3, "the list to be read again while events come")
        assert operator.script("return window.told > 5 * window.asked"), "not for each event"
        told = operator.script("clearInterval(window.constant); window.tell(); return window.asked")
        operator.wait(lambda: operator.script("return window.asked") > told, "and for the last one")
    finally:
        operator.script("clearInterval(window.constant)")


def test_a_run_is_a_graph_that_follows(operator, place):
    operator.open("/runs")
    title = place.queue.value("SELECT v.title FROM runs r JOIN videos v ON v.id = r.video_id ORDER BY r.created_at DESC, r.id DESC LIMIT 1")
    operator.see("td a", title).click()
    operator.see("h1", f"Processing: {title}")
    operator.see(".graph")
    steps = place.queue.value("SELECT steps FROM workflows WHERE name = 'video_pipeline' ORDER BY version DESC LIMIT 1")
    for shape, size in (("across", WIDE), ("down", NARROW)):
        operator.resize(*size)
        graph = operator.see(f".graph.{shape}")
        assert len(operator.all(f".graph.{shape} g")) == len(steps)
        assert len(operator.all(f".graph.{shape} .edge")) == sum(len(step.get("depends_on", [])) for step in steps)
        assert operator.script("return arguments[0].parentElement.scrollWidth <= arguments[0].parentElement.clientWidth", graph), "all of it is seen"
    operator.resize(*WIDE)
    operator.see(".actions button", "Cancel the run").click()
    operator.see("#question button.main").click()
    operator.see("[data-state=canceled]")
    operator.see(".actions button", "Restart failed jobs").click()
    operator.see("[data-state=running]")


def test_workers_and_their_disks(operator):
    operator.open("/workers")
    operator.see("tbody tr", "reader-1")
    assert operator.see(".badge.stopped").text == "Stopped"
    operator.see(".queue", "takes no uploads")


def test_a_disk_that_fills_up_says_when_it_is_full(operator, place):
    place.queue.run("INSERT INTO hosts (name, disk_level, disk_used_percent, disk_checked_at) VALUES ('filling', 'ok', 50, now())")
    place.queue.run("INSERT INTO disk_status_log (ts, host, path, total_bytes, free_bytes, used_percent, level) SELECT now() - n * interval '12 minutes',"
                    " 'filling', '/var/tmp', 1000, 500, 50 - n, 'ok' FROM generate_series(10, 0, -1) AS n")
    operator.open("/workers")
    operator.wait(lambda: [one for one in operator.all(".queue") if "filling" in one.text and "full in 1 day" in one.text], "50 % at 5 % an hour")
    place.queue.run("DELETE FROM hosts WHERE name = 'filling'")


def test_what_is_not_a_users_is_not_offered(screen):
    screen.open("/jobs")
    screen.see(".places a", "Runs")
    assert {"Queues", "Workers", "Failures"}.isdisjoint({link.text for link in screen.all(".places a")})
    assert not [one for one in screen.all(".filters button") if one.is_displayed()]
    screen.open("/queues")
    screen.see("[data-state=failed]")


def test_a_key_shows_its_secret_once(operator, place):
    operator.open("/keys")
    operator.see("form input[name=name]").send_keys("nightly export")
    operator.see("form button.main").click()
    secret = operator.see(".why-box code").text
    assert secret.startswith("cvk_")
    assert place.gateway.ask("/me", secret).status == 200
    operator.open("/keys")
    operator.see("tbody tr", "nightly export")
    assert secret not in operator.script("return document.body.innerText")
    operator.see("tbody button", "Revoke").click()
    operator.see("#question h2", "Revoke “nightly export”?")
    assert place.gateway.ask("/me", secret).status == 200
    operator.see("#question button.main").click()
    operator.see("tbody .badge", "Revoked")
    operator.wait(lambda: place.gateway.ask("/me", secret).status == 401, "the key to be refused")


def test_a_schedule_says_when_before_it_is_made(operator, place):
    operator.open("/schedules")
    operator.see("button", "New schedule").click()
    operator.fill(".make", name="weekly-look", cron="30 2 * * mon", target="video_pipeline")
    operator.wait(lambda: len(operator.all(".make time")) == 10, "the next ten times")
    operator.see(".make button.main").click()
    row = operator.see("tbody tr", "weekly-look")
    assert "Workflow" in row.text
    own = f"tbody tr[data-id='{row.get_attribute('data-id')}']"
    operator.see(f"{own} button", "Pause").click()
    operator.see(f"{own} .badge", "Paused")
    delete = "tbody button[aria-label='Delete: weekly-look']"
    operator.see(delete).click()
    operator.wait(lambda: not operator.all(own), "it to go")
    operator.see("cv-toasts button", "Undo").click()
    operator.see(delete).click()
    operator.wait(lambda: not operator.all(own), "it to go again")
    assert place.queue.value("SELECT count(*)::int FROM job_triggers WHERE name = 'weekly-look'")
    operator.pass_time()
    operator.see("cv-toasts p", "“weekly-look” is deleted")
    assert not place.queue.value("SELECT count(*)::int FROM job_triggers WHERE name = 'weekly-look'")


CRONS = {"30 2 * * *": "every day at 02:30 in Berlin", "0 8,20 * * mon-fri": "Monday to Friday at 08:00 and 20:00 in Berlin",
         "0 4 * * sun": "every Sunday at 04:00 in Berlin", "0 3 1 * *": "on day 1 of the month at 03:00 in Berlin",
         "*/15 * * * *": "every 15 minutes", "5 * * * *": "every hour at minute 5", "0 0 1 jan *": "on day 1 of the month at 00:00, in January in Berlin",
         "1-59/7 3 * * *": "1-59/7 3 * * * Europe/Berlin"}


def test_schedules_are_sentences_and_names_are_offered(operator):
    operator.open("/schedules")
    operator.see("tbody tr", "every day at 02:30 in Berlin")
    said = operator.driver.execute_async_script(
        "const [all, done] = arguments; import('/parts/cron.js').then(({sentenceOf}) => done(all.map((one) => sentenceOf(one, 'Europe/Berlin'))));", list(CRONS))
    assert said == list(CRONS.values())
    operator.see("button", "New schedule").click()
    offered = "return [...document.querySelectorAll('#offers-target option')].map((one) => one.value)"
    operator.wait(lambda: "reindex" in operator.script(offered), "the names of workflows")
    operator.see(".make option[value=command]").click()
    operator.wait(lambda: "gc" in operator.script(offered), "the names of commands")


def test_a_schedule_of_the_system_is_only_paused(operator, place):
    gc = place.queue.value("SELECT id::text FROM job_triggers WHERE name = 'gc'")
    operator.open("/schedules")
    operator.see(f"tr[data-id='{gc}'] button", "Pause")
    assert not operator.all("button[aria-label='Delete: gc']") and operator.all("button[aria-label^='Delete: ']")
    operator.open(f"/schedules/{gc}")
    operator.see("main p", "belongs to the system")
    assert not [one for one in operator.all("main button") if one.text == "Delete"]
    refused = place.gateway.ask(f"/triggers/{gc}", operator.token, "DELETE")
    assert refused.status == 409 and "pause it instead" in refused.json["detail"]


@on_desk_and_phone("operator")
def test_a_schedule_is_right_by_the_clocks_of_its_zone(operator, place):
    """New York puts its clocks on in March: what is to happen at 2:30 happens at 3:00 or later that night."""
    trigger = place.queue.value("INSERT INTO job_triggers (name, cron, time_zone, action, target) VALUES"
                                " ('clocks', '30 2 * 3 sun', 'America/New_York', 'command', 'gc') RETURNING id::text")
    operator.open(f"/schedules/{trigger}")
    operator.see(".where time")
    shown = [one.get_attribute("datetime") for one in operator.all(".where time")]
    assert len(shown) == 10 and shown == sorted(shown)
    assert {hour[11:13] for hour in shown} == {"06", "07"}, "2:30 is 7:30 UTC in winter and 6:30 in summer"
    field = operator.see(".make input[name=cron]")
    field.clear()
    field.send_keys("0 4 * * *")
    operator.see(".make button").click()
    operator.see("cv-toasts p", "The changes are saved")
    operator.wait(lambda: "4:00" in operator.see(".where").text, "the new times")
    operator.see("button", "Delete").click()
    operator.wait(lambda: operator.driver.current_url.endswith("/schedules"), "the list")
    operator.pass_time()
    operator.wait(lambda: not place.queue.value("SELECT count(*)::int FROM job_triggers WHERE id = %s::uuid", trigger), "it to go")


def test_single_jobs_are_chosen(operator, place):
    ids = [str(one) for one in dead(place, 4, "NoModel")]
    operator.open("/jobs?type=embed&state=failed&error=NoModel")
    operator.wait(lambda: len(operator.all("tbody tr")) == 4, "four jobs")
    boxes = operator.all("tbody input[type=checkbox]")
    boxes[0].click()
    operator.see(".chosen", "1 selected")
    boxes[2].send_keys(Keys.SPACE)
    operator.see(".chosen", "2 selected")
    chosen = {operator.all("tbody tr")[n].get_attribute("data-id") for n in (0, 2)}
    operator.see(".chosen button", "Retry").click()
    operator.see("dialog[open] button.main", "Retry 2 jobs").click()
    operator.see("cv-toasts p", "2 jobs wait again")
    waiting = place.queue.value("SELECT array_agg(id::text) FROM jobs WHERE id = ANY (%s::uuid[]) AND status = 'queued'", ids)
    assert set(waiting) == chosen
    operator.wait(lambda: len(operator.all("tbody tr")) == 2 and not operator.all(".chosen"), "the other two")
    operator.see("thead input[type=checkbox]").click()
    operator.see(".chosen", "2 selected")
    place.queue.run("SELECT cancel_job(id) FROM unnest(%s::uuid[]) AS id", ids)


def test_jobs_by_a_part_of_a_word(operator, place):
    ids = dead(place, 2, "WhirringNoise")
    operator.open("/jobs?state=failed")
    operator.see("tbody tr")
    operator.see(".filters input[type=search]").send_keys("whirring")
    operator.wait(lambda: {row.get_attribute("data-id") for row in operator.all("tbody tr")} == {str(one) for one in ids}, "the jobs with that error")
    assert "q=whirring" in operator.driver.current_url
    operator.see(".filters button", "Retry all").click()
    operator.see("dialog[open] p", "2 jobs will wait")
    operator.press(Keys.ESCAPE)
    operator.see(".filters input[type=search]").send_keys(*[Keys.BACKSPACE] * 8)
    operator.wait(lambda: len(operator.all("tbody tr")) > 2, "all jobs")


def test_why_a_job_waits_is_said_in_the_readers_language(operator, place):
    job = place.queue.add("embed", video_id=place.film)
    with operator.words("de"):
        operator.open(f"/jobs/{job}")
        operator.see(".why-box", "Kein laufender Worker nimmt „Bedeutung wird gelernt“")
        place.queue.run("SELECT pause_type('embed', 'the model is exchanged')")
        operator.open(f"/jobs/{job}")
        assert ": the model is exchanged" in operator.see(".why-box li", "Aufträge dieser Art sind angehalten.").text
    place.queue.run("SELECT resume_type('embed'), cancel_job(%s)", job)


def test_what_failed_and_what_was_skipped_is_said_in_the_readers_language(operator, place):
    place.queue.run("INSERT INTO workflows (name, steps) VALUES ('two_steps', %s)",
                    '[{"key": "read", "job_type": "embed"}, {"key": "use", "job_type": "embed", "depends_on": ["read"]}]')
    run = place.queue.value("SELECT run_id FROM start_run('two_steps', '{}', %s)", place.film)
    place.queue.run("SELECT fail_job(id, lease_token, 'NotAVideo', 'the file is empty; copy or download it again', false)"
                    " FROM claim_jobs('w', 'embed')")
    jobs = {row["step"]: row["id"] for row in place.queue.run("SELECT step, id FROM jobs WHERE run_id = %s", run)}
    with operator.words("de"):
        operator.open(f"/jobs/{jobs['read']}")
        operator.see(".error-box p", "die Datei ist leer; kopieren oder laden Sie sie noch einmal")
        operator.open(f"/jobs/{jobs['use']}")
        operator.see(".why-box", "Er ist ausgelassen")
        operator.open(f"/runs/{run}")
        operator.see(".stages", "ausgelassen: read ist gescheitert")
    place.queue.run("DELETE FROM runs WHERE id = %s", run)


def test_columns_are_chosen_and_kept(operator):
    operator.open("/jobs")
    operator.see("tbody tr")
    operator.see(".columns summary").click()
    operator.see(".columns input[name=priority]").click()
    operator.see("th", "Priority")
    operator.see(".columns input[name=waited]").click()
    operator.open("/jobs")
    operator.see("th", "Priority")
    assert not [one for one in operator.all("th") if one.text == "Waited"]


def test_a_webhook_shows_its_secret_and_its_deliveries(operator, place):
    operator.open("/webhooks")
    operator.see("form input[name=name]").send_keys("orders")
    operator.see("form input[name=url]").send_keys("https://example.com/orders")
    operator.see("form button.main").click()
    secret = operator.see(".why-box code").text
    assert secret.startswith("whsec_")
    operator.see("tbody a", "orders").click()
    operator.see("[data-state=empty]", "Nothing was delivered")
    operator.see("button", "Send a test").click()
    operator.see("tbody tr .badge", "Waiting")
    operator.see("button", "New secret").click()
    operator.wait(lambda: operator.see(".why-box code").text != secret, "another secret")
    operator.see("button", "Pause").click()
    operator.see("h2 .badge", "Paused")
    operator.see("button", "Delete").click()
    operator.wait(lambda: operator.driver.current_url.endswith("/webhooks"), "the list")
    operator.pass_time()
    operator.see("cv-toasts p", "“orders” is deleted")
    assert not place.queue.value("SELECT count(*)::int FROM webhooks WHERE name = 'orders'")


def test_a_rule_holds_at_once_and_a_wrong_one_is_not_taken(operator, place):
    operator.open("/rules")
    field = operator.see("tr[data-id=embed] input[name=max_running]")
    field.send_keys("3", Keys.TAB)
    operator.see("cv-toasts p", "The rule is changed")
    assert place.queue.value("SELECT max_running FROM job_types WHERE name = 'embed'") == 3
    urgent = operator.see("tr[data-id=embed] input[name=base_priority]")
    urgent.clear()
    urgent.send_keys("77", Keys.TAB)
    assert place.queue.value("SELECT base_priority FROM job_types WHERE name = 'embed'") <= 10
    place.queue.run("UPDATE job_types SET max_running = NULL WHERE name = 'embed'")


def test_tenants_wait_and_go_on(operator, place):
    row = "tr[data-id='0f0e0d0c-0000-4000-8000-0000000000ef']"
    place.queue.run("INSERT INTO cortana.tenants (id, name) VALUES ('0f0e0d0c-0000-4000-8000-0000000000ef', 'Newsroom')")
    operator.open("/tenants")
    assert operator.see(f"{row} a").text == "Newsroom"
    unnamed = operator.see(f"tr[data-id='{ALICE}'] a", f"Unnamed, ID ends in {ALICE[-4:]}")
    assert ALICE not in operator.script("return document.body.innerText")
    unnamed.find_element("xpath", "following-sibling::button").click()
    operator.press("Alice's films", Keys.ENTER)
    operator.see(f"tr[data-id='{ALICE}'] a", "Alice's films")
    operator.open("/resources")
    operator.see("td", "Alice's films")
    place.queue.run("DELETE FROM cortana.tenants WHERE id = %s", ALICE)
    operator.open("/tenants")
    zone = operator.see(f"{row} input")
    zone.clear()
    zone.send_keys("Europe/Berlin", Keys.TAB)
    operator.see("cv-toasts p", "time zone is changed")
    assert place.queue.value("SELECT time_zone FROM cortana.tenants") == "Europe/Berlin"
    place.queue.run("DELETE FROM cortana.tenants")
    operator.see(row, "the invoice is open")
    operator.see(f"{row} button", "Resume").click()
    operator.see("cv-toasts p", "go on")
    assert not place.queue.value("SELECT count(*)::int FROM paused_tenants")
    place.queue.run("SELECT pause_tenant('0f0e0d0c-0000-4000-8000-0000000000ef', 'the invoice is open')")
    operator.see("tbody .number a").click()
    operator.see(".chip", "of one tenant")
    assert not operator.all(".filters .actions button"), "a change of many jobs knows no tenant"


def test_performance_and_resources_are_numbers_of_the_database(operator, place):
    operator.open("/performance?hours=720")
    row = operator.see("tbody tr", "Reading the text")
    attempts = place.queue.value("SELECT count(*)::int FROM ended_attempts a JOIN jobs j ON j.id = a.job_id WHERE j.job_type = 'ocr'")
    assert f"{attempts:,}" in row.text
    operator.see(".tabs a", "By worker").click()
    operator.see("tbody td", "reader-2")
    operator.open("/resources")
    assert f"{place.queue.value('SELECT count(*)::int FROM videos')} videos" in operator.see(".queue", "Originals").text


def test_a_command_is_run_by_the_form_of_its_schema(operator, place):
    operator.open("/commands?run=gc")
    operator.see("article[data-id=gc] input[name=remove]")
    operator.see("article[data-id=gc] [aria-expanded=true]").click()
    operator.wait(lambda: not operator.all("article[data-id=gc] form"), "the form to go")
    operator.see("article[data-id=gc] [aria-expanded=false]").click()
    operator.see("article[data-id=gc] input[name=rows]").click()
    operator.see("article[data-id=gc] input[name=min_age_hours]").send_keys("24")
    operator.see("article[data-id=gc] .make button", "Run it").click()
    operator.see("[data-state=queued] h1")
    job = re.search("[0-9a-f-]{36}", operator.driver.current_url).group()
    assert place.queue.value("SELECT payload -> 'args' FROM jobs WHERE id = %s::uuid", job) == {"rows": True, "min_age_hours": 24}
    place.queue.run("SELECT cancel_job(%s::uuid)", job)


def test_a_command_is_defined_on_the_page(operator, place):
    operator.open("/commands")
    operator.see("summary", "Define a command").click()
    operator.fill("form.make", key="greet", description="says hello")
    operator.see("textarea[name=argv]").send_keys("/bin/echo\nhello")
    operator.see("textarea[name=schema]").send_keys("{no")
    operator.see("form.make button.main").click()
    operator.see("form.make .fault", "The schema is not JSON")
    field = operator.see("textarea[name=schema]")
    field.clear()
    field.send_keys('{"properties": {"name": {"type": "string"}}}')
    operator.see("form.make button.main").click()
    assert "/bin/echo hello" in operator.see("[data-id=greet]").text
    assert place.queue.value("SELECT extract(epoch FROM time_limit)::int FROM job_definitions WHERE key = 'greet'") == 3600
    place.queue.run("DELETE FROM job_definitions WHERE key = 'greet'")


def test_a_workflow_is_checked_while_it_is_written(operator, place):
    operator.open("/workflows")
    operator.see("h2 a", "reindex").click()
    field = operator.see("textarea.code")
    steps = field.get_attribute("value")
    field.send_keys(Keys.CONTROL, Keys.END)
    field.send_keys("x")
    operator.see("[role=status] .fault")
    assert operator.see("button.main", "Use this version").get_attribute("disabled")
    field.send_keys(Keys.BACKSPACE)
    operator.see("[role=status] .faint", "The same steps")
    operator.script("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))", field,
                    steps.replace('"ocr"', '"nothing"', 1))
    operator.see("[role=status] .fault")
    operator.see(".stages li", "in use")


@on_desk_and_phone("operator")
def test_a_job_opens_beside_its_list_which_keeps_its_place(operator, place):
    operator.open("/jobs?type=ocr")
    operator.see("tbody tr")
    operator.wait(lambda: operator.script("scrollTo(0, document.body.scrollHeight); return scrollY") > 900, "a list that can be scrolled")
    rows = "return [...document.querySelectorAll('tbody tr')].map((one) => one.dataset.id)"
    before, at = operator.script(rows), operator.script("return scrollY")
    link = next(one for one in operator.all("tbody td a.of-video") if 150 < one.rect["y"] - at < 600)
    job = link.get_attribute("href").rsplit("/", 1)[1]
    link.click()
    operator.see(".beside .facts-list", job)
    assert operator.script("return document.activeElement.className") == "beside"
    shown, y = operator.script(rows), operator.script("return scrollY")
    assert shown[:len(before)] == before and abs(y - at) < 200, (at, y)
    operator.driver.refresh()
    operator.see(".beside .facts-list", job)  # its address holds both
    assert "type=ocr" in operator.driver.current_url
    operator.press(Keys.ESCAPE)
    operator.wait(lambda: not operator.all(".beside"), "it to close")
    assert operator.driver.current_url.endswith("/jobs?type=ocr")
    operator.see(f"tr[data-id='{job}'] a").click()
    operator.see(".beside a.button", "Open as a page").click()
    operator.see(".page.narrow .facts-list", job)
    assert operator.driver.current_url.endswith(f"/jobs/{job}") and not operator.all(".beside")


def test_a_phone_has_short_rows_and_folded_filters(operator):
    operator.resize(*NARROW)
    operator.open("/jobs?state=failed")
    operator.see("tbody tr")
    heights = operator.script("return [...document.querySelectorAll('tbody tr')].map((one) => one.offsetHeight)")
    assert max(heights) <= 72, heights
    assert not [one for one in operator.all(".filters select") if one.is_displayed()]
    operator.see(".filters .fold").click()
    operator.see(".filters select")


@on_desk_and_phone("operator")
def test_a_provider_to_sign_in_by_is_made_on_the_page(operator, place):
    operator.open("/people")
    operator.see("summary", "Add or change a provider").click()
    operator.fill(".make", name="ours", title="Our login", issuer="https://login.example.org", client_id="cortana", client_secret="s3cret")
    operator.see(".make code", "/signed-in")
    operator.see(".make button.main").click()
    operator.see(".providers tr[data-name=ours]", "Our login")
    assert [list(row.values()) for row in place.queue.run("SELECT title, issuer, client_id, client_secret, tenant_id FROM sign_in_providers WHERE name = 'ours'")] == [
        ["Our login", "https://login.example.org", "cortana", "s3cret", None]]
    operator.script("document.querySelector('.providers tr[data-name=ours] button').click()")
    operator.wait(lambda: not operator.all(".providers tr[data-name=ours]"), "it to go")
    operator.pass_time()
    operator.wait(lambda: place.queue.value("SELECT count(*)::int FROM sign_in_providers WHERE name = 'ours'") == 0, "it to be deleted")


def test_a_videos_fields_are_those_of_its_tenant(operator, place):
    operator.open("/fields")
    for n, (name, kind) in enumerate((("camera", "Text"), ("mood", "Choice"))):
        operator.see("main form button", "Add a field").click()
        operator.wait(lambda: len(operator.all("tbody tr")) == n + 1, "its row")
        operator.press(name, Keys.TAB)
        operator.all("tbody tr select")[n].send_keys(kind)
    operator.see("tbody tr:nth-child(2) td:nth-child(3) input").send_keys("calm, loud", Keys.TAB)
    operator.all("tbody input[type=checkbox]")[0].click()
    operator.see("main form button.main").click()
    operator.see("cv-toasts p", "The fields are saved")
    operator.open(f"/videos/{place.videos[0]}")
    operator.see(".heading .of-menu").click()
    operator.see("[data-do=edit]").click()
    operator.see("dialog[open] input[name='own:camera']:required").send_keys("GX80")
    operator.see("dialog[open] select[name='own:mood'] option", "loud").click()
    operator.see("dialog[open] button.main").click()
    operator.see(".facts-list dd a", "loud").click()
    operator.see(f".results h2 a[href*='{place.videos[0]}']")
    assert place.queue.value("SELECT fields FROM videos WHERE id = %s::uuid", place.videos[0]) == {"camera": "GX80", "mood": "loud"}
    place.queue.run("DELETE FROM cortana.tenant_fields; UPDATE videos SET fields = '{}' WHERE fields <> '{}'")
