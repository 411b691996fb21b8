"""Payloads to publish come in batches of bounded count and size."""

import io

from cli.payloads import BATCH_BYTES, BATCH_ENTRIES, batches, lines, made


def test_lines_lose_their_newline_and_nothing_else() -> None:
    assert list(lines(io.BytesIO(b"a\n\n b\r\nlast"))) == [b"a", b"", b" b\r", b"last"]


def test_made_payloads_are_distinct_and_of_the_size_asked() -> None:
    payloads = list(made(1000, 8))
    assert len(set(payloads)) == 1000
    assert {len(payload) for payload in payloads} == {8}


def test_batches_are_bounded_in_entries() -> None:
    assert [len(batch) for batch in batches(made(BATCH_ENTRIES + 1, 10))] == [BATCH_ENTRIES, 1]


def test_batches_are_bounded_in_bytes() -> None:
    assert [len(batch) for batch in batches([bytes(BATCH_BYTES)] * 3)] == [1, 1, 1]


def test_nothing_makes_no_batch() -> None:
    assert list(batches([])) == []
