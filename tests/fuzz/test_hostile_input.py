"""The short form of `make fuzz`: seeded, so that every run reads the same inputs."""

import subprocess
import sys


def test_hostile_input_is_refused_by_the_documented_errors_in_bounded_time_and_memory(tmp_path):
    command = [sys.executable, "-m", "tests.fuzz", "--each", "10000", "--seed", "ci", "--findings", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
