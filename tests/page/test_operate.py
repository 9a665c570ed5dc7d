"""What operators look at and change: queues, jobs in numbers, runs, workers, failures."""


def dead(place, number, error="NoSpeech"):
    ids = []
    for _ in range(number):
        ids.append(place.queue.add("embed", video_id=place.film))
        place.queue.fail(place.queue.claim_one("embed"), error, retryable=False)
    return ids


def test_queues_are_cards_that_follow_the_work(operator, place):
    operator.open("/queues")
    card = operator.see(".queue[data-type=ocr]")
    waiting = place.queue.value("SELECT count(*)::int FROM jobs WHERE job_type = 'ocr' AND status = 'queued' AND is_ready")
    assert str(waiting) in card.text and card.get_attribute("data-state") in ("working", "waiting")
    assert len(operator.all(".chart rect.done")) > 50 and operator.see(".queue[data-type=ocr] .spark")
    operator.see(".queue[data-type=ocr] button", "Pause").click()
    operator.see(".queue[data-type=ocr][data-state=paused]", "paused on the page")
    assert place.queue.value("SELECT paused_at IS NOT NULL FROM job_types WHERE name = 'ocr'")
    operator.see(".queue[data-type=ocr] button", "Go on").click()
    operator.wait(lambda: operator.all(".queue[data-type=ocr]:not([data-state=paused])"), "it to go on")
    place.queue.add("webhook")
    operator.see(".queue[data-type=webhook] .ready", "1")
    operator.see(".queue[data-type=ocr] .ready").click()
    operator.see("tbody tr")
    assert "type=ocr" in operator.driver.current_url and "state=queued" in operator.driver.current_url


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


def test_new_jobs_wait_behind_a_button(operator, place):
    operator.open("/jobs?type=webhook")
    operator.see("h1", "Jobs")
    operator.wait(lambda: not operator.all(".skeletons"), "the list")
    job = place.queue.add("webhook")
    operator.see(".fresh button", "1 new job").click()
    operator.see(f"tr[data-id='{job}']")
    place.queue.run("SELECT cancel_job(%s)", job)
    operator.see(f"tr[data-id='{job}'] .badge", "Canceled")


def test_a_run_is_a_graph_that_follows(operator, place):
    operator.open("/runs")
    operator.see("td a", "video_pipeline").click()
    operator.see(".graph")
    steps = place.queue.value("SELECT steps FROM workflows WHERE name = 'video_pipeline' ORDER BY version DESC LIMIT 1")
    assert len(operator.all(".graph g")) == len(steps)
    assert len(operator.all(".graph .edge")) == sum(len(step.get("depends_on", [])) for step in steps)
    operator.see(".actions button", "Cancel the run").click()
    operator.see("[data-state=canceled]")
    operator.see(".actions button", "Restart what failed").click()
    operator.see("[data-state=running]")


def test_workers_and_their_disks(operator):
    operator.open("/workers")
    operator.see("tbody tr", "reader-1")
    assert operator.see(".badge.stopped").text == "Stopped"
    operator.see(".queue", "takes no jobs")


def test_what_is_not_a_users_is_not_offered(screen):
    screen.open("/jobs")
    screen.see(".places a", "Runs")
    assert {"Queues", "Workers", "Failures"}.isdisjoint({link.text for link in screen.all(".places a")})
    assert not screen.all(".filters button")
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
    operator.see("tbody .badge", "Revoked")
    operator.wait(lambda: place.gateway.ask("/me", secret).status == 401, "the key to be refused")


def test_a_schedule_says_when_before_it_is_made(operator, place):
    operator.open("/schedules")
    operator.see("button", "New schedule").click()
    for name, value in (("name", "weekly-look"), ("cron", "30 2 * * mon"), ("target", "video_pipeline")):
        operator.see(f".make input[name={name}]").send_keys(value)
    operator.wait(lambda: len(operator.all(".make time")) == 10, "the next ten times")
    operator.see(".make button.main").click()
    row = operator.see("tbody tr", "weekly-look")
    assert "Workflow" in row.text
    operator.see("tbody tr button", "Pause").click()
    operator.see("tbody .badge", "Paused")
    operator.see("tbody button[aria-label='Delete: weekly-look']").click()
    operator.wait(lambda: "weekly-look" not in operator.script("return document.body.innerText"), "it to go")
