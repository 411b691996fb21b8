"""The ports that servers use by default: outside the range of outgoing connections, which might take them.

While a server is down, anybody can take its port. To run several groups of servers on one machine, give each a range of
its own by PORTS_VARIABLE.
"""

import os
import random

from mledger.metastore.errors import MetadataError

PORTS_VARIABLE = "MLEDGER_SERVER_PORTS"
SERVER_PORTS = range(15_000, 32_000)  # Linux gives outgoing connections those from 32768 on
_ATTEMPTS = 100


def server_ports() -> range:
    """The ports to choose from: the range FIRST-LAST in PORTS_VARIABLE, else SERVER_PORTS.

    Raises:
        MetadataError: the variable names no ports.
    """
    text = os.environ.get(PORTS_VARIABLE, "")
    if not text:
        return SERVER_PORTS
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) < 1 << 16):
        raise MetadataError(f"{PORTS_VARIABLE} is {text!r}: write FIRST-LAST, two port numbers such as 15000-31999")
    return range(int(first), int(last) + 1)


def ports_to_try() -> list[int]:
    """Some of them, in random order."""
    ports = server_ports()
    return random.sample(ports, min(_ATTEMPTS, len(ports)))
