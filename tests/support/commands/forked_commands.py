"""Provides an executable `mledger` that starts at once: a server that has imported everything forks for each call.

`python -m tests.support.commands.forked_commands DIR` creates `DIR/mledger` and serves it until stdin ends. A call is a
process of its own, with the arguments, environment, directory and open files of its caller. It gets the signals of its
caller and returns its exit code to it.
"""

import contextlib
import os
import select
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.aio import HANG_S

ROOT = Path(__file__).resolve().parents[3]
SOCKET = "calls"
PATIENCE_VARIABLE = "PATIENCE_S"
"""In a call's environment: how many seconds its completions wait for the cluster."""
CALLER = """#!{python} -SE
import os, signal, socket, sys
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect({path!r})
environment = [key + "=" + value for key, value in os.environ.items()]
head = [str(len(sys.argv) - 1), os.getcwd(), *sys.argv[1:], *environment]
socket.send_fds(server, ["\\0".join(head).encode()], [0, 1, 2])
server.shutdown(socket.SHUT_WR)
process = int(server.recv(16))
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda sent, _: os.kill(process, sent))
code = server.recv(16)
sys.exit(int(code) if code else 70)
"""


@contextlib.contextmanager
def forked_commands(directory: Path) -> Iterator[Path]:
    """A directory for PATH whose `mledger` runs the command of this checkout."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.commands.forked_commands", str(directory)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        assert server.stdout.readline() == b"serving\n"
        yield directory
    finally:
        server.stdin.close()
        server.wait(HANG_S)
        server.stdout.close()


def serve(directory: Path) -> None:
    """Serve calls until stdin ends."""
    _import_everything()
    path = str(directory / SOCKET)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(path)
    listening.listen(64)
    caller = directory / "mledger"
    caller.write_text(CALLER.format(python=sys.executable, path=path))
    caller.chmod(caller.stat().st_mode | stat.S_IXUSR)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("serving", flush=True)
    while True:
        ready, _, _ = select.select([listening, 0], [], [])
        if 0 in ready:
            return
        connection, _ = listening.accept()
        if os.fork() == 0:
            _answer(connection)
        connection.close()


def _answer(connection: socket.socket) -> None:
    """Become the process between the call and its caller."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, files, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while more := connection.recv(1 << 20):
        data += more
    count, directory, *rest = data.decode().split("\0")
    pid = os.fork()
    if pid == 0:
        connection.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(item.split("=", 1) for item in rest[int(count) :])
        _run(rest[: int(count)])
    for file in files:
        os.close(file)
    connection.send(str(pid).encode())
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):
        connection.send(str(abs(os.waitstatus_to_exitcode(status))).encode())
    os._exit(0)


def _run(arguments: list[str]) -> None:
    from mledger.cli.main import main
    from mledger.cli.shared import names

    names.PATIENCE_S = float(os.environ.get(PATIENCE_VARIABLE, names.PATIENCE_S))
    sys.argv = ["mledger", *arguments]
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0, "r"), os.fdopen(1, "w"), os.fdopen(2, "w")
    code: object = 70
    try:
        main()
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _import_everything() -> None:
    import uvloop  # noqa: F401

    import mledger.metastore.rocksdb.store
    import mledger.metastore.zookeeper.store  # noqa: F401
    from mledger.cli.catalogue import NOUNS
    from mledger.cli.shared.command_groups import LazyGroup

    for noun in NOUNS.values():
        for command in noun.lazy.values() if isinstance(noun, LazyGroup) else (noun,):
            command.load()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
