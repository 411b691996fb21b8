"""`python -m MODULE` as a process that starts at once: a server that has imported everything forks for each start.

Imports are most of what a start costs, and tests start a thousand servers, owners and commands. Each is a process of
its own with its own arguments, environment, directory and files. It ends with the process that started it.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from mledger.metastore.runtime.processes.child_processes import ONE_BLAS_THREAD, PATH_VARIABLE, start_child

ROOT = Path(__file__).resolve().parents[2]
IMPORTED = (
    "uvloop",
    "mledger.bookie.server.process.main",
    "mledger.broker.process.main",
    "mledger.cli.catalogue",
    "mledger.cli.shared.context",
    "mledger.metastore.rocksdb.server",
    "mledger.metastore.rocksdb.store",
    "mledger.metastore.zookeeper.store",
    "mledger.topics.managed_ledger",
)
"""What the processes import, where that is costly and starts no thread: a process with threads must not fork."""
_MOST_BYTES = 1 << 17
_MOST_FILES = 1024
_STATUS_BYTES = 4
_PR_SET_PDEATHSIG = 1
_starting = threading.Lock()
_servers: dict[int, "_Server"] = {}  # keyed by process, because a forked process must not use its parent's


class ForkedPython(subprocess.Popen):
    """A `Popen` of `[sys.executable, "-m", MODULE, …]`; takes files, `cwd`, `env`, `text`, `start_new_session`."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *more) -> None:
        """`Popen` calls this once it has made its pipes."""
        _, _, shell, *files, _, _, _, _, _, new_session = more[:15]
        assert args[:2] == [sys.executable, "-m"], f"not a Python module: {args}"
        assert not any((executable, preexec_fn, pass_fds, shell)), "not for a forked process"
        given = (files[0], files[3], files[5])
        status, told = os.pipe()
        self._status = status
        request = {
            "words": args[2:],
            "cwd": os.fspath(cwd or os.getcwd()),
            "environment": dict(os.environ if env is None else env),
            "new_session": bool(new_session),
        }
        try:
            sent = [number if file == -1 else file for number, file in enumerate(given)]
            self.pid = _server().fork(request, [*sent, told])
        finally:
            os.close(told)
        self._child_created = True
        self._close_pipe_fds(*files)

    def _try_wait(self, wait_flags):
        """Like `os.waitpid`, for a process that is not a child of this one."""
        if wait_flags == os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        told = os.read(self._status, _STATUS_BYTES)
        os.close(self._status)
        return self.pid, int.from_bytes(told, "big") if told else int(signal.SIGKILL)

    def _internal_poll(self, _deadstate=None, **_):
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                pid, status = (0, 0) if self.returncode is not None else self._try_wait(os.WNOHANG)
                if pid == self.pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


class _Server:
    """The forking process, seen from its user."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = start_child(
                [sys.executable, "-m", "tests.support.forked_python"],
                stdin=theirs,
                cwd=ROOT,
                env=os.environ
                | dict([(PATH_VARIABLE, str(ROOT)), ONE_BLAS_THREAD]),  # a process with threads must not fork
                start_new_session=True,  # an interrupt typed at the terminal is meant for the tests
            )

    def fork(self, request: dict[str, Any], files: Sequence[int]) -> int:
        """The id of the new process."""
        with self._lock:
            socket.send_fds(self._requests, [json.dumps(request).encode()], files)
            said = self._requests.recv(_MOST_BYTES)
        assert said, "the process that forks has ended"
        return int(said)


def _server() -> _Server:
    with _starting:
        return _servers.get(os.getpid()) or _servers.setdefault(os.getpid(), _Server())


def serve() -> None:
    """Serve requests on stdin, a socket, until its other end is closed."""
    for module in IMPORTED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    requests = socket.socket(fileno=os.dup(0))
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    told: dict[int, int] = {}
    while True:
        ready = select.select([requests, woken], [], [])[0]
        if woken in ready:
            os.read(woken, _MOST_BYTES)
            _reap(told)
        if requests in ready:
            data, files, _, _ = socket.recv_fds(requests, _MOST_BYTES, 4)
            if not data:
                return
            parent = os.getpid()
            pid = os.fork()
            if pid == 0:
                _become(json.loads(data), files, parent)
            for file in files[:3]:
                os.close(file)
            told[pid] = files[3]
            requests.send(str(pid).encode())


def _reap(told: dict[int, int]) -> None:
    """Report the processes that have ended."""
    for pid in list(told):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with contextlib.suppress(BrokenPipeError):
                os.write(told[pid], status.to_bytes(_STATUS_BYTES, "big"))
            os.close(told.pop(pid))


def _become(request: dict[str, Any], files: list[int], parent: int) -> NoReturn:
    """Become the process of the module, until it ends."""
    code = 1
    try:
        _take_place(request, files, parent)
        code = _run(request["words"])
    finally:
        os._exit(code)


def _take_place(request: dict[str, Any], files: list[int], parent: int) -> None:
    """Set files, directory, environment and signals as for a new process of the module."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    if request["new_session"]:
        os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    os.closerange(3, _MOST_FILES)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = list(dict.fromkeys([request["cwd"], *filter(None, paths), *sys.path]))
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def _run(words: list[str]) -> int:
    """Do what `python -m` does with these words, and return the exit code."""
    module, *arguments = words
    sys.argv = [module, *arguments]
    sys.modules.pop(module, None)  # it runs under another name, even if other modules import it
    code: object = 0
    try:
        runpy._run_module_as_main(module)
    except SystemExit as ended:
        code = ended.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code & 0xFF


if __name__ == "__main__":
    serve()


@contextlib.contextmanager
def forked_child():
    """Fork a process that does nothing until the end of the block, and wait until it runs."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, b".")
            signal.pause()
        finally:
            os._exit(0)
    try:
        os.close(writing)
        os.read(reading, 1)
        yield
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
