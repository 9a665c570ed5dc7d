#!/usr/bin/env python3
"""A worker in plain SQL: claims jobs of the type "reverse", renews their leases, completes them or fails them.

    psql -c "INSERT INTO job_types (name, description) VALUES ('reverse', 'Texts, backwards')"
    psql -c "SELECT enqueue_job('reverse', '{\"text\": \"abc\"}')"
    DATABASE_URL=postgresql:///cortana python3 docs/examples/worker.py
"""
import json, os, socket, threading, time
import psycopg2

WORKER = f"{socket.gethostname()}:{os.getpid()}"
RENEW_S = float(os.environ.get("RENEW_S", "120"))  # well within the lease


def ask(connection, statement, *values):
    with connection, connection.cursor() as cursor:  # one transaction
        cursor.execute(statement, values)
        return cursor.fetchone()


def keep_lease(job_id, token, is_over):
    connection = psycopg2.connect(os.environ["DATABASE_URL"])
    while not is_over.wait(RENEW_S):
        if ask(connection, "SELECT renew_lease(%s, %s, '5 minutes')", job_id, token) != ("ok",):
            os._exit(1)  # lost to another worker, or canceled: whatever runs here must end


def work(payload):
    time.sleep(payload.get("seconds", 0))
    return {"text": payload["text"][::-1]}


def run(connection, job_id, token, payload):
    is_over = threading.Event()
    threading.Thread(target=keep_lease, args=(job_id, token, is_over), daemon=True).start()
    try:
        result = json.dumps(work(payload))
        ask(connection, "SELECT complete_job(%s, %s, %s)", job_id, token, result)  # false: the lease was lost
    except Exception as failure:  # a wrong payload fails for good, anything else is tried again
        kind = "InvalidPayload" if isinstance(failure, KeyError) else "ServerError"
        ask(connection, "SELECT fail_job(%s, %s, %s, %s, %s)", job_id, token, kind, repr(failure), kind != "InvalidPayload")
    is_over.set()


if __name__ == "__main__":
    database = psycopg2.connect(os.environ["DATABASE_URL"])
    while True:
        job = ask(database, "SELECT id, lease_token, payload FROM claim_jobs(%s, 'reverse', 1, '5 minutes')", WORKER)
        if job:
            run(database, *job)
        else:
            time.sleep(1)
