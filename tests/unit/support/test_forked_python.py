"""A module behaves the same in a forked process as in one that `python -m` starts."""

import json
import os
import signal
import subprocess
import sys
from subprocess import DEVNULL, PIPE

import pytest

from tests.support.aio import HANG_S
from tests.support.forked_python import IMPORTED, ForkedPython

PROGRAM = """
import atexit, json, os, signal, sys, threading
atexit.register(print, "at exit", flush=True)
known = {
    "arguments": sys.argv[1:], "program": os.path.basename(sys.argv[0]), "name": __name__, "spec": __spec__.name,
    "cwd": os.getcwd(), "variable": os.environ.get("VARIABLE"), "variables": sorted(os.environ),
    "path": os.path.realpath(sys.path[0]), "session": os.getsid(0) == os.getpid(),
    "files": sorted(set(os.listdir("/proc/self/fd")) - {"3"}) if sys.platform == "linux" else [],
    "threads": threading.active_count(), "child": signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL,
    "read": sys.stdin.read(),
}
print(json.dumps(known))
print("said", file=sys.stderr)
exec(sys.argv[1])
"""
ENDS = ("pass", "sys.exit(3)", "sys.exit('in words')", "raise ValueError(7)", "os.kill(os.getpid(), signal.SIGKILL)")


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def ran(start, directory, *arguments, **options):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")} | {
        "VARIABLE": "set"
    }
    command = [sys.executable, "-m", "program", *arguments]
    with start(command, cwd=directory, env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE, **options) as process:
        out, err = process.communicate("given" if options.get("text") else b"given", HANG_S)
    return process.returncode, out, err


@pytest.mark.parametrize("end", ENDS)
def test_a_forked_module_behaves_like_a_started_one(directory, end):
    forked, started = (ran(start, directory, end, "b c", text=True) for start in (ForkedPython, subprocess.Popen))
    assert forked[:2] == started[:2]
    assert forked[2].splitlines()[-1:] == started[2].splitlines()[-1:]
    assert json.loads(forked[1].splitlines()[0])["read"] == "given" if forked[1] else end == ENDS[-1]


def test_a_forked_module_can_have_a_session_of_its_own(directory):
    code, out, _ = ran(ForkedPython, directory, "pass", start_new_session=True)
    assert (code, json.loads(out.splitlines()[0])["session"]) == (0, True)


def test_two_forked_modules_run_together_and_are_signalled_and_waited_for_separately(directory):
    command = [sys.executable, "-m", "program", "print('on', flush=True); signal.pause()"]
    processes = [ForkedPython(command, cwd=directory, stdin=DEVNULL, stdout=PIPE) for _ in range(2)]
    for process in processes:
        assert [process.stdout.readline() for _ in range(2)][1] == b"on\n"
    assert [process.poll() for process in processes] == [None, None]
    processes[1].terminate()
    assert processes[1].wait(HANG_S) == -signal.SIGTERM
    assert processes[0].poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        processes[0].wait(0.01)
    processes[0].kill()
    assert processes[0].wait(HANG_S) == -signal.SIGKILL
    for process in processes:
        process.stdout.close()


def test_a_forked_module_ends_with_the_process_that_started_it(directory):
    starter = f"""
import sys, subprocess, time
from tests.support.forked_python import ForkedPython
command = [sys.executable, "-m", "program", "print('on', flush=True); signal.pause()"]
process = ForkedPython(command, cwd={str(directory)!r}, stdin=subprocess.DEVNULL)
print(process.pid, flush=True)
time.sleep(3600)
"""
    with subprocess.Popen([sys.executable, "-c", starter], stdout=PIPE) as process:
        lines = {process.stdout.readline() for _ in range(3)}  # of two processes, in any order
        assert b"on\n" in lines
        assert any(line.strip().isdigit() for line in lines)
        process.kill()
        assert process.stdout.read() == b""  # returns once every process that holds it has ended


def test_what_is_imported_before_a_fork_starts_no_thread():
    program = f"import importlib, os; [importlib.import_module(each) for each in {IMPORTED!r}]"
    counted = "print(len(os.listdir('/proc/self/task')))"
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    assert subprocess.check_output([sys.executable, "-c", f"{program}; {counted}"], env=environment) == b"1\n"
