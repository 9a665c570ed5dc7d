"""The screens of the page: where each is, and what is to be seen on it once it is there."""

SCREENS = {
    "start": ("/", ".card"), "results": ("/?q=bridge&sort=newest", ".hit"), "nothing": ("/?q=zzzzqqqq", "[data-state=empty]"),
    "refused": ("/?q=-lang%3Aeng", "[data-state=failed]"), "library": ("/videos", ".card"),
    "library-empty": ("/videos?status=duplicate", "[data-state=empty]"), "alerts": ("/alerts", "[data-state=empty]"),
    "video": ("/videos/FILM?q=harbour", "cv-transcript li.found"), "jobs": ("/jobs", "tbody tr"),
    "job": ("/jobs/FAILED", ".error-box"), "job-waiting": ("/jobs/WAITING", ".why-box"), "run": ("/runs/RUN", ".graph"),
    "account": ("/account", "h1"), "signed-in": ("/signed-in", "h1"), "unsubscribe": ("/unsubscribe#c=x", "h1"), "invitation": ("/invitation#c=x", "h1"),
    "unknown": ("/nope", "[data-state=empty] h1"), "missing": ("/jobs/0f0e0d0c-0000-4000-8000-000000000099", "[data-state=failed]"),
}
OPERATORS = {
    "overview": ("/overview", ".badge"), "queues": ("/queues", ".queue"), "runs": ("/runs", "tbody tr"), "workers": ("/workers", "tbody tr"), "failures": ("/failures", "h1"),
    "schedules": ("/schedules", "h1"), "keys": ("/keys", "main form"), "fields": ("/fields", "main form"), "people": ("/people", "main form"), "shares": ("/shares", "input[type=checkbox]"),
    "performance": ("/performance?hours=720", "tbody tr"), "resources": ("/resources", "tbody tr"), "tenants": ("/tenants", "tbody tr"),
    "rules": ("/rules", "tbody tr"), "schedule": ("/schedules/TRIGGER", ".where time"), "webhooks": ("/webhooks", "tbody tr"),
    "webhook": ("/webhooks/ours", ".state"), "workflows": ("/workflows", ".graph"), "workflow": ("/workflows/video_pipeline", ".graph"),
    "commands": ("/commands?run=gc", ".make"), "audit": ("/audit", "h1"), "many": ("/jobs?state=failed", "tbody tr"),
}

# Of a library with nothing in it; what is to be seen of the others is the same.
EMPTY = ("start", "library", "alerts", "jobs", "overview", "queues", "runs", "schedules", "keys", "people", "shares", "webhooks")
WAITING = ("results", "library", "video", "jobs", "queues")  # that are looked at while they load, and when they fail


def path_at(place, path):
    """The path with the names of what a place has."""
    job = "SELECT id::text FROM jobs WHERE status = %s AND video_id = ANY (%s::uuid[]) ORDER BY created_at DESC LIMIT 1"
    names = {"FILM": lambda: place.film, "RUN": lambda: place.runs[0], "FAILED": lambda: place.queue.value(job, "failed", place.videos),
             "WAITING": lambda: place.queue.value(job, "queued", place.videos),
             "TRIGGER": lambda: place.queue.value("SELECT id::text FROM job_triggers WHERE name = 'nightly-cleaning'")}
    for name, find in names.items():
        path = path.replace(name, find()) if name in path else path
    return path
