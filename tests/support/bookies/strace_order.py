"""What a trace of a bookie's system calls proves: an add is answered after its bytes are synced (Q8). No I/O.

For every add response that was sent there must be a write to a file of the entry's bytes, then a sync of that very
file descriptor that returned 0 and began after the write had ended, then the send.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mledger.bookie import wire

CALLS = ("write", "writev", "pwrite64", "pwritev", "pwritev2", "fsync", "fdatasync", "sendto", "sendmsg")
COMMAND = ("strace", "-f", "--seccomp-bpf", "-y", "-xx", "-s", "1048576", "-e", f"trace={','.join(CALLS)}")
"""Traces the command that follows; add `-o FILE`."""

SYNCS = ("fsync", "fdatasync")

_BEGIN = re.compile(r"(?P<pid>\d+)\s+(?P<name>\w+)\((?P<rest>.*)")
_RESUMED = re.compile(r"(?P<pid>\d+)\s+<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)")
_DESCRIPTOR = re.compile(r"(?P<number>\d+)<(?P<name>(?:[^<>]|->|<[^<>]*>)*)>")
_RESULT = re.compile(r"\)\s+= (?P<result>-?\d+)")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_UNFINISHED = "<unfinished ...>"


@dataclass(frozen=True, slots=True)
class Call:
    """One system call: where the trace shows its beginning and end, its descriptor and what that is, data, result."""

    begin: int
    end: int
    name: str
    descriptor: int
    target: str
    data: bytes
    result: int

    @property
    def to_socket(self) -> bool:
        """Whether it wrote to a connection."""
        return self.target.startswith(("TCP", "socket:", r"\x54\x43\x50", r"\x73\x6f\x63\x6b\x65\x74"))


def parse_trace(lines: Iterable[str]) -> list[Call]:
    """The finished calls of a trace, in the order in which they began."""
    calls: list[Call] = []
    waiting: dict[tuple[str, str], tuple[int, str]] = {}
    for number, line in enumerate(lines):
        if match := _RESUMED.match(line):
            begin, text = waiting.pop((match["pid"], match["name"]))
            calls.append(_call(begin, number, match["name"], text + match["rest"]))
        elif match := _BEGIN.match(line):
            if line.rstrip().endswith(_UNFINISHED):
                text = match["rest"].rstrip().removesuffix(_UNFINISHED)
                waiting[match["pid"], match["name"]] = (number, text)
            else:
                calls.append(_call(number, number, match["name"], match["rest"]))
    return sorted(calls, key=lambda call: call.begin)


def _call(begin: int, end: int, name: str, text: str) -> Call:
    descriptor, result = _DESCRIPTOR.match(text), _RESULT.search(text)
    data = b"".join(bytes.fromhex(string.replace("\\x", "")) for string in _STRING.findall(text))
    return Call(
        begin,
        end,
        name,
        int(descriptor["number"]) if descriptor else -1,
        descriptor["name"] if descriptor else "",
        data,
        int(result["result"]) if result else -1,
    )


def answered_adds(data: bytes) -> list[tuple[int, int]]:
    """Ledger and entry of every add that the response frames in `data` acknowledge."""
    found, at = [], 0
    while at + wire.RESPONSE.size <= len(data):
        length, header, error, ledger, entry = wire.RESPONSE.unpack_from(data, at)
        if header >> 16 & 0xFF == wire.Op.ADD and error == 0:
            found.append((ledger, entry))
        at += 4 + length
    return found


def find_violations(calls: list[Call], entries: Mapping[tuple[int, int], bytes]) -> list[str]:
    """What is wrong with the order of a trace; empty if every one of `entries` was answered after its sync."""
    answered: set[tuple[int, int]] = set()
    wrong = []
    for send in (call for call in calls if call.to_socket and call.result > 0):
        for key in answered_adds(send.data):
            answered.add(key)
            if not synced_before(send, entries[key], calls):
                wrong.append(f"entry {key[1]} of ledger {key[0]} was answered at line {send.begin} before its sync")
    wrong += [f"entry {entry} of ledger {ledger} was never answered" for ledger, entry in entries.keys() - answered]
    return wrong


def synced_before(send: Call, entry: bytes, calls: list[Call]) -> bool:
    """Whether the bytes of `entry` were written to a file, and that file synced, before `send` began."""
    before = [call for call in calls if call.end < send.begin and not call.to_socket]
    writes = [call for call in before if call.name not in SYNCS and call.result > 0 and entry in call.data]
    return any(
        sync.name in SYNCS
        and sync.result == 0
        and (sync.descriptor, sync.target) == (write.descriptor, write.target)
        and write.end < sync.begin
        for write in writes
        for sync in before
    )
