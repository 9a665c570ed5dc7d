"""Who may do what: the status of each operation of gateway/operations for each caller and each kind of thing."""

import time
import uuid

from api import BOB, TEAM, token

# name: token
CALLERS = {
    "nobody": None,
    "expired": token(exp=int(time.time()) - 60),
    "viewer": token(app_metadata={"cortana_role": "viewer", "team_id": TEAM}),
    "owner": token(app_metadata={"team_id": TEAM}),
    "admin": token(app_metadata={"cortana_role": "admin", "team_ids": [TEAM]}),
    "other tenant": token(sub=BOB),
    "stranger": token(sub=str(uuid.uuid4())),
    "own word": token(sub=str(uuid.uuid4()), user_metadata={"team_id": TEAM, "cortana_role": "admin"}),
    "service": token(role="service_role", sub=None),
}
ALICES = ("viewer", "owner", "admin")
SIGNED_OUT = ("nobody", "expired")

# Operations on one thing: path, method; {id} is a video's or a job's.
OF_A_VIDEO = [("GET", "/videos/{id}"), ("GET", "/videos/{id}/stages"), ("GET", "/videos/{id}/segments"),
              ("GET", "/videos/{id}/entities")]
OF_A_JOB = [("GET", "/jobs/{id}"), ("GET", "/jobs/{id}/attempts"), ("GET", "/jobs/{id}/events"),
            ("GET", "/jobs/{id}/artifacts"), ("GET", "/jobs/{id}/why"), ("POST", "/jobs/{id}/cancel"),
            ("POST", "/jobs/{id}/retry")]
OF_A_RUN = [("GET", "/runs/{id}"), ("POST", "/runs/{id}/cancel"), ("POST", "/runs/{id}/restart")]
OF_THE_SERVICE = [("GET", "/workers"), ("GET", "/hosts"), ("GET", "/nodes"), ("GET", "/resources"), ("GET", "/stats/queues"),
                  ("GET", "/stats/throughput"), ("GET", "/stats/performance"), ("GET", "/tenants"),
                  ("POST", "/job-types/transcode/resume"), ("POST", f"/tenants/{BOB}/resume")]
OF_ADMINS = [("GET", "/errors"), ("GET", "/dead-letters"), ("GET", "/triggers"), ("GET", "/webhooks")]
LISTS = [("GET", "/me"), ("GET", "/session"), ("GET", "/videos"), ("GET", "/search?q=bridge"), ("GET", "/jobs"), ("GET", "/job-types"),
         ("GET", "/jobs/summary"), ("GET", "/runs"), ("GET", "/definitions"), ("GET", "/workflows")]


def sees(caller, thing):
    """Whether a caller may see what is "own" (Alice's), "team" (of Alice's team), or "foreign" (Bob's)."""
    return thing != "missing" and (caller == "service" or caller in ALICES and thing != "foreign"
                                   or caller == "other tenant" and thing == "foreign")


def expected(caller, method, thing):
    if caller in SIGNED_OUT:
        return 401
    if method == "POST" and caller == "viewer":
        return 403
    return 200 if sees(caller, thing) else 404
