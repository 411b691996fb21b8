"""Commands whose output cannot be written: one line and exit code 1, and whether a change was made before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mledger.cli.shared.context_file import Contexts, read_contexts, write_contexts
from tests.support.aio import HANG_S
from tests.support.cli import ROOT
from tests.support.ports import environment_of_commands

FULL = "/dev/full"


def run_into(stdout, *arguments, **variables):
    """`mledger` in a process of its own, whose stdout is the descriptor `stdout`."""
    command = [sys.executable, "-m", "mledger.cli.main", *map(str, arguments)]
    environment = environment_of_commands() | {"PYTHONPATH": str(ROOT)} | variables
    return subprocess.run(command, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=HANG_S)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_below_the_output_is_an_error_in_one_line(unbuffered, tmp_path):
    contexts = {"MLEDGER_CONTEXTS": str(tmp_path / "contexts.toml"), "PYTHONUNBUFFERED": unbuffered}
    with Path(FULL).open("w") as full:
        done = run_into(full, "context", "list", **contexts)
    assert (done.returncode, done.stderr) == (1, "mledger: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_below_the_help_of_a_server_is_too(unbuffered):
    with Path(FULL).open("w") as full:
        done = run_into(full, "bookie", "run", "--help", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (1, "mledger: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_a_disk_takes_in_part_is_an_error(unbuffered, tmp_path):
    contexts, out = tmp_path / "contexts.toml", tmp_path / "out"
    write_contexts(contexts, Contexts({f"cluster-{number}": f"zk://host-{number}:1" for number in range(99)}))
    limited = ("bash", "-c", 'trap "" XFSZ; ulimit -f 1; exec "$@"', "limited")
    command = [*limited, sys.executable, "-m", "mledger.cli.main", "context", "list"]
    variables = {"MLEDGER_CONTEXTS": str(contexts), "PYTHONUNBUFFERED": unbuffered, "PYTHONPATH": str(ROOT)}
    with out.open("w") as file:
        done = subprocess.run(
            command,
            env=environment_of_commands() | variables,
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            timeout=HANG_S,
        )
    assert (done.returncode, done.stderr) == (1, "mledger: the output cannot be written: File too large\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_standalone_that_cannot_say_that_it_serves_says_why(unbuffered):
    with Path(FULL).open("w") as full:
        words = ("standalone", "--ephemeral", "--port", 0, "--http-port", 0)
        done = run_into(full, *words, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "stdout, on which a server says that it serves, cannot be written: No space left on device" in last


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_a_reader_that_is_gone_is_exit_code_1_without_a_word(unbuffered, arguments):
    reading, writing = os.pipe()
    os.close(reading)
    done = run_into(writing, *arguments, PYTHONUNBUFFERED=unbuffered)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_change_before_the_output_failed_is_told(tmp_path):
    contexts = tmp_path / "contexts.toml"
    with Path(FULL).open("w") as full:
        done = run_into(full, "context", "add", "prod", "zk://prod:1", MLEDGER_CONTEXTS=str(contexts))
    assert done.returncode == 1
    assert f"warning: {contexts} was changed, but the command could not finish" in done.stderr
    assert read_contexts(contexts).metadata == {"prod": "zk://prod:1"}


@pytest.mark.parametrize(
    "arguments", [("metadata", "backup"), ("report", "{snapshots}", "--to")], ids=lambda each: each[0]
)
def test_a_file_that_cannot_be_written_is_named(url, tmp_path, arguments):
    kept, file = tmp_path / "kept", tmp_path / "full" / "file.json"
    assert run_into(subprocess.DEVNULL, "--metadata", url, "snapshot", "export", kept, "--name", "one").returncode == 0
    words = [each.format(snapshots=kept) for each in arguments]
    limited = ("bash", "-c", 'trap "" XFSZ; ulimit -f 1; exec "$@"', "limited")  # as on a full disk, for any user
    file.parent.mkdir()
    command = [*limited, sys.executable, "-m", "mledger.cli.main", "--metadata", url, *words, str(file)]
    environment = environment_of_commands() | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_S)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{file} cannot be written: File too large" in done.stderr
    assert list(file.parent.iterdir()) == []


def test_a_snapshot_is_told_to_be_complete(url, tmp_path):
    kept = tmp_path / "kept"
    with Path(FULL).open("w") as full:
        done = run_into(full, "--metadata", url, "snapshot", "export", kept, "--name", "one")
    assert done.returncode == 1
    assert f"warning: {kept}/snapshot=one is complete, but the command could not finish" in done.stderr
    assert (kept / "snapshot=one" / "manifest.json").exists()
