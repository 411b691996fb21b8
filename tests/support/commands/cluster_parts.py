"""Parts of a local cluster that have ended, or that are this process."""

import os

import psutil

from mledger.cli.local.cluster_state import Part

ENDED = {"pid": 2**22 + 1, "started": 0.0}
BOOKIE = Part("bookie-1", "127.0.0.1:3181", **ENDED)
BROKER = Part("broker-1", "127.0.0.1:6650", **ENDED)
ALIVE = {"pid": os.getpid(), "started": psutil.Process().create_time()}


def part(name, address, **fields):
    """A part that has ended, unless `fields` say otherwise."""
    return Part(name, address, **(ENDED | fields))
