"""What the checker of traces must accept, and what it must find."""

import pytest

from mledger.bookie import wire
from tests.support.bookies.strace_order import find_violations, parse_trace

ENTRY = wire.ENTRY_HEAD.pack(1, 0, -1, 0) + b"digest and payload"
FRAME = wire.encode_add(b"k" * 20, ENTRY)
ANSWER = wire.encode_response(wire.Op.ADD, 0, 1, 0)


def text(data):
    """Bytes as strace prints them."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in data) + '"'


VECTOR = f"[{{iov_base={text(b'head')}, iov_len=4}}, {{iov_base={text(FRAME)}, iov_len=1}}]"
WRITE = f"10 pwritev(7</j/1.journal>, {VECTOR}, 2, 0) = 99"
OTHER_WRITE = f"10 pwrite64(8</j/2.journal>, {text(FRAME)}, 90, 0) = 90"
EMPTY_WRITE = f"10 pwrite64(7</j/1.journal>, {text(b'other')}, 5, 0) = 5"
SYNC = "10 fdatasync(7</j/1.journal>) = 0"
FAILED_SYNC = "10 fdatasync(7</j/1.journal>) = -1 EIO (Input/output error)"
SYNC_BEGINS = "10 fdatasync(7</j/1.journal> <unfinished ...>"
SYNC_ENDS = "10 <... fdatasync resumed>) = 0"
SEND = f"11 write(9<TCP:[127.0.0.1:1->127.0.0.1:2]>, {text(ANSWER)}, 28) = 28"


def violations(*lines):
    """The checker's findings in a trace."""
    return find_violations(parse_trace(lines), {(1, 0): ENTRY})


def test_write_sync_send_is_right():
    assert violations(WRITE, SYNC, SEND) == []
    assert violations(WRITE, SYNC_BEGINS, SYNC_ENDS, SEND) == []


@pytest.mark.parametrize(
    "lines",
    [
        (WRITE, SEND, SYNC),
        (WRITE, SYNC_BEGINS, SEND, SYNC_ENDS),
        (SYNC, WRITE, SEND),
        (SYNC_BEGINS, WRITE, SYNC_ENDS, SEND),
        (OTHER_WRITE, SYNC, SEND),
        (EMPTY_WRITE, SYNC, SEND),
        (WRITE, FAILED_SYNC, SEND),
        (SEND,),
    ],
)
def test_any_other_order_file_or_content_is_found(lines):
    (violation,) = violations(*lines)
    assert "entry 0 of ledger 1 was answered" in violation


def test_an_add_that_was_never_answered_is_found():
    assert violations(WRITE, SYNC) == ["entry 0 of ledger 1 was never answered"]
