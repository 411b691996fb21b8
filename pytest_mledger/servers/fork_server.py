"""Starts servers by forking: modules are imported only once, so a whole cluster starts in a fraction of a second.

`python -m pytest_mledger.servers.fork_server` reads requests on stdin, one JSON object per line, and writes events to
stdout:

    {"prepare": MODULE}                                              import it for later servers
    {"start": NAME, "module": MODULE, "arguments": […], "log": FILE} run MODULE's main(arguments) in a new process
    {"signal": NUMBER, "name": NAME}                                 send a signal to a server, if it is running
    {"end": true}                                                    kill all servers, and end

    {"started": NAME, "pid": PID}        followed by what the server writes to its stdout, one line per write
    {"ended": NAME, "code": CODE}        the exit code, or minus the number of the signal that ended it

All servers end with this process, and this process ends when its stdin is closed, so with the process that started it.
That is asked to end by name too: whoever holds the other end of stdin does not matter then.
"""

import contextlib
import ctypes
import importlib
import json
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_READ_BYTES = 65536
_PR_SET_PDEATHSIG = 1
_HIGHEST_FILE = 256
_FAILED = 1


def say(**event: object) -> None:
    """Report an event, in one write."""
    os.write(_STDOUT, json.dumps(event).encode() + b"\n")


class ForkServer:
    """Starts servers and keeps those that have not ended."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._received = b""

    def run(self) -> None:
        """Serve requests until stdin ends, then kill the remaining servers."""
        woken, wake = os.pipe()
        for end in (woken, wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        selector = selectors.DefaultSelector()
        selector.register(_STDIN, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        try:
            while True:
                ready = [key.fd for key, _ in selector.select()]
                if woken in ready:
                    os.read(woken, _READ_BYTES)
                    self._reap()
                if _STDIN in ready and not self._take(os.read(_STDIN, _READ_BYTES)):
                    return
        finally:
            self._end_all()

    def _take(self, data: bytes) -> bool:
        """Carry out the complete requests; False at the end of stdin, or when asked to end."""
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if "end" in request:
                return False
            self._carry_out(request)
        return bool(data)

    def _carry_out(self, request: dict[str, Any]) -> None:
        if "prepare" in request:
            importlib.import_module(request["prepare"])
        elif "start" in request:
            main = importlib.import_module(request["module"]).main
            self._start(request["start"], main, request["arguments"], request["log"])
        else:
            for pid, name in self._names.items():
                if name == request["name"]:
                    os.kill(pid, request["signal"])  # the pid is not reused before we reap it

    def _start(self, name: str, main: Callable[[Sequence[str]], int], arguments: list[str], log: str) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become_server(name, main, arguments, log, parent)
        self._names[pid] = name

    def _reap(self) -> None:
        for pid in list(self._names):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                say(ended=self._names.pop(pid), code=os.waitstatus_to_exitcode(status))

    def _end_all(self) -> None:
        for pid in self._names:
            os.kill(pid, signal.SIGKILL)
        for pid in self._names:
            os.waitpid(pid, 0)


def _become_server(
    name: str, main: Callable[[Sequence[str]], int], arguments: list[str], log: str, parent: int
) -> NoReturn:
    """Run the server in the forked process until it ends."""
    code = _FAILED
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _end_with(parent)
        _use_files(log)
        say(started=name, pid=os.getpid())
        code = main(arguments)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else _FAILED
    except BaseException:
        traceback.print_exc()
    finally:  # do not run the parent's exit handlers in the child
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_with(parent: int) -> None:
    """Have the system kill this process when the fork server ends, even if that is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(_FAILED)


def _use_files(log: str) -> None:
    """Use no stdin, the shared stdout and the server's own log, and close the fork server's other files."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    errors = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(nothing, _STDIN)
    os.dup2(errors, _STDERR)
    os.closerange(_STDERR + 1, _HIGHEST_FILE)


if __name__ == "__main__":
    ForkServer().run()
