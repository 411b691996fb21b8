"""The priority of a process whose work is not urgent."""

import contextlib
import os

AUTOGROUP = "/proc/self/autogroup"


def stand_back(niceness: int) -> None:
    """Add `niceness` to that of this process: whoever works for clients on the same machine comes first.

    Linux groups processes by session, where it has autogroups, and niceness counts only within a group (sched(7)). A
    process that leads its session, as a service does, gives it to the group as well. One that was started in a shell's
    session leaves that as it is: the shell and other programs are in it.
    """
    now = os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError), open(AUTOGROUP, "w", encoding="ascii") as group:
            group.write(str(now))
