"""Faults that a seed draws: processes, sessions, connections, the database and the clock."""

import collections
import contextlib
import os
import signal
import time

import psycopg2


class Faults:
    """What may break, each a method; draws one after the other from the dice. `revive` starts dead processes
    anew, `processes` lists those that may be hit: supervisors, and their stages."""

    def __init__(self, dice, cluster, gates, clock, lease_ms, processes, revive):
        self.dice, self.cluster, self.gates = dice, cluster, gates
        self.clock, self.lease_ms = clock, lease_ms
        self.processes, self.revive = processes, revive
        self.stopped = []  # (when it goes on, pid)
        self.done = collections.Counter()
        self.kinds = {self.kill: 20, self.stop: 20, self.crash_database: 2, self.end_session: 10,
                      self.reset: 6, self.silence: 6, self.freeze: 6, self.step_clock: 6}

    def victim(self):
        return self.dice.choice(self.dice.choice([kind for kind in self.processes() if kind]))

    def kill(self):
        os.kill(self.victim(), signal.SIGKILL)

    def stop(self):
        """For less than a lease, or for more."""
        pid = self.victim()
        os.kill(pid, signal.SIGSTOP)
        leases = self.dice.choice([0.2, 0.8, 1.5, 3])
        self.stopped.append((time.monotonic() + leases * self.lease_ms / 1000, pid))

    def crash_database(self):
        self.cluster.stop(immediate=True)
        time.sleep(self.dice.choice([0, 0.5, 2.5]))  # how long it is away
        self.cluster.start()

    def end_session(self):
        with contextlib.suppress(psycopg2.Error), contextlib.closing(self.cluster.connect()) as link:
            link.cursor().execute("""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
                ORDER BY md5(pid::text || %s) LIMIT 1""", (str(self.dice.random()),))

    def reset(self):
        self.dice.choice(self.gates).reset()

    def silence(self):
        self.dice.choice(self.gates).silence(self.dice.choice([0.1, 1, 4]))

    def freeze(self):
        self.dice.choice(self.gates).freeze(self.dice.choice([0.3, 1, 2.5]))

    def step_clock(self):
        """The wall clock of one worker jumps, back or forth."""
        self.clock.write_text(f"{self.dice.choice([-7200, -90, -2, 2, 90, 7200]):+d}\n")

    def one(self):
        """One fault; a method that answers False could not do it."""
        fault = self.dice.choices(list(self.kinds), list(self.kinds.values()))[0]
        with contextlib.suppress(ProcessLookupError, IndexError):
            if fault() is not False:
                self.done[fault.__name__] += 1
        self.go_on()

    def go_on(self, everybody=False):
        """Stopped processes whose time has come go on; dead workers are started anew."""
        now = time.monotonic()
        for when, pid in list(self.stopped):
            if everybody or when <= now:
                self.stopped.remove((when, pid))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        self.revive()
