"""What a forked process does not keep: the locks of this process, its listening sockets and their connections.

A lock of `flock`, a port and a connection last until the last process that has the file closes it. A worker that a
program forked beside a server in its own process would hold them past the program's end, kill -9 included. So the
forked process gives them up. It puts the null device in their place, since their numbers are known to objects that it
may still close. A program that is executed (`subprocess`) inherits none of them anyway.
"""

import os
import socket
import stat
import weakref
from collections.abc import Iterator
from typing import Any

_FILES = "/dev/fd"
_EVERY_HOST = ("0.0.0.0", "::")  # noqa: S104 - compared, not listened on

_held: set[int] = set()
_listeners: weakref.WeakSet[socket.socket] = weakref.WeakSet()  # those that are closed have no number


def hold(file: int) -> None:
    """Keep a descriptor from processes that are forked from now on; `close_held` or `let_go` ends it."""
    _held.add(file)


def close_held(file: int) -> None:
    """Close such a descriptor."""
    let_go(file)
    os.close(file)


def let_go(file: int) -> None:
    """Hold it no more, since another closes it."""
    _held.discard(file)


def hold_listener(listener: socket.socket) -> None:
    """Keep a listening socket and the connections that come by it from processes that are forked from now on."""
    _listeners.add(listener)


def _give_up() -> None:
    """Give up what the parent holds, in the forked process."""
    listeners = [listener for listener in _listeners if listener.fileno() != -1]
    files = {*_held, *(listener.fileno() for listener in listeners)}
    if listeners:
        files.update(_connections([listener.getsockname() for listener in listeners]))
    _held.clear()
    _listeners.clear()
    if files:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for file in files:
            os.dup2(nothing, file, inheritable=False)
        os.close(nothing)


def _connections(addresses: list[Any]) -> Iterator[int]:
    """The sockets of this process that have one of these addresses."""
    try:
        names = os.listdir(_FILES)
    except OSError:  # the system is without it
        return
    for name in names:
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode) and _has_address(int(name), addresses):
                yield int(name)
        except OSError:  # the directory's own descriptor, which is closed by now
            continue


def _has_address(file: int, addresses: list[Any]) -> bool:
    found = socket.socket(fileno=file)
    try:
        own = found.getsockname()
    finally:
        found.detach()
    return any(own == each or _is_at_every_host(own, each) for each in addresses)


def _is_at_every_host(own: Any, listener: Any) -> bool:
    """Whether `own` is an address of a listener at every address of the machine."""
    return (
        isinstance(own, tuple) and isinstance(listener, tuple) and listener[0] in _EVERY_HOST and own[1] == listener[1]
    )


os.register_at_fork(after_in_child=_give_up)
