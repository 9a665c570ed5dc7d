"""A server under systemd that is asked by shell commands, wherever it runs."""

import base64
import shlex
import time


class Failed(Exception):
    """What a command in the machine answered instead of success."""


class Server:
    """What every kind of machine can do. Its kind says how it boots, is asked (`ask`), restarts and ends, and whether it is on.
    Its disk forgets at the end what was changed. It is a process of its own: it may outlive this one, and be taken up again by
    its folder."""

    SECONDS_MAX = 600  # that one command may take, or one wait
    PAUSE = 0.3  # seconds between two looks of a wait

    def ask(self, command, check=True, timeout=None):
        """What the shell command prints, on both of its outputs."""
        raise NotImplementedError

    def is_on(self):
        raise NotImplementedError

    def bytes_of(self, path):
        return base64.b64decode(self.ask(f"base64 -w0 {shlex.quote(path)}"))

    def wait(self, command, what):
        """Until the command succeeds and prints something; that."""
        end = time.monotonic() + self.SECONDS_MAX
        while time.monotonic() < end:
            try:
                text = self.ask(command).strip()
                if text:
                    return text
            except Failed as problem:
                if not self.is_on():
                    raise problem
            time.sleep(self.PAUSE)
        raise Failed(f"waited {self.SECONDS_MAX} s for {what}: {self.ask(command, check=False)[-1000:]}")
