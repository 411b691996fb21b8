"""The end of a process whose journal failed says why, also in a program that has configured no logs."""

import subprocess
import sys

from mledger.bookie.server.storage.journal_thread import EXIT_STORAGE_FAILED

END = """
from mledger.bookie.server.storage.journal_thread import end_process
end_process("journal_failed", OSError(5, "Input/output error"))
"""
REASON = "OSError(5, 'Input/output error')"


def ended(*lines):
    program = "\n".join((*lines, END))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == EXIT_STORAGE_FAILED
    return done.stderr


def test_without_logs_stderr_says_why_the_process_ends():
    said = ended()
    assert said.startswith(f"mledger: journal_failed: {REASON}: the process ends with exit code 74")
    assert said.count("\n") == 1


def test_with_logs_they_say_it_and_nothing_else_does():
    said = ended("import logging", "logging.basicConfig(format='%(message)s')")
    assert said.startswith(f'event=journal_failed reason="{REASON}"')
    assert "exit code" not in said
