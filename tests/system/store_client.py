"""The store's calls from tests, through the program store-commands."""

import contextlib
import json
import os
import subprocess

import pytest


class StoreError(Exception):
    """A call that failed: `type`, `retryable` and the message."""

    def __init__(self, answer):
        super().__init__(f"{answer['error']}: {answer['message']}")
        self.type, self.retryable = answer["error"], answer["retryable"]
        self.message = answer["message"]


@contextlib.contextmanager
def refused(kind, *words, retryable=False):
    """The call within fails, with an error of this kind (None: of any) that has these words, and may be one to try again."""
    with pytest.raises(StoreError) as caught:
        yield
    assert kind in (None, caught.value.type) and (caught.value.retryable or not retryable), caught.value
    assert all(word in caught.value.message for word in words), caught.value


class StoreClient:
    """One process with one store, open until close()."""

    def __init__(self, program, environment, log_path=None):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("S3_", "AWS_", "STORE_URL"))}
        with open(log_path or os.devnull, "ab") as log:
            self.process = subprocess.Popen([program], env={**clean, **environment}, text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    def try_call(self, name, **arguments):
        """The answer, whatever it is."""
        self.process.stdin.write(json.dumps({"do": name, **arguments}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"store-commands died with {self.process.wait()}"
        return json.loads(line)

    def __getattr__(self, name):
        def call(**arguments):
            answer = self.try_call(name, **arguments)
            if "error" in answer:
                raise StoreError(answer)
            return answer

        return call

    def keys(self, prefix="", **arguments):
        """All keys, page by page."""
        found, continuation = [], None
        while True:
            more = {"continuation": continuation} if continuation else {}
            page = self.list(prefix=prefix, **arguments, **more)
            found += [entry["key"] for entry in page["entries"]]
            continuation = page["continuation"]
            if not continuation:
                return found

    def close_process(self):
        self.process.stdin.close()
        assert self.process.wait(300) == 0
