"""common/queue, the queue's face in C, on a real database."""

import os
import subprocess


def test_c_tests_of_the_queue_pass(program, database):
    done = subprocess.run([program("test-queue")], env={**os.environ, "DATABASE_URL": database},
                          text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
