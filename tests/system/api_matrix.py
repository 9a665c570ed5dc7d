"""Callers, and what they see in lists. What each may do: test_api_every_operation.py."""

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

LISTS = [("GET", "/me"), ("GET", "/session"), ("GET", "/videos"), ("GET", "/search?q=bridge"), ("GET", "/jobs"), ("GET", "/job-types"),
         ("GET", "/jobs/summary"), ("GET", "/runs"), ("GET", "/definitions"), ("GET", "/workflows")]


def sees(caller, thing):
    """Whether a caller may see what is "own" (Alice's), "team" (of Alice's team), or "foreign" (Bob's)."""
    return thing != "missing" and (caller == "service" or caller in ALICES and thing != "foreign"
                                   or caller == "other tenant" and thing == "foreign")
