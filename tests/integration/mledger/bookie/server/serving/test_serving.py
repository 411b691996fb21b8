"""A bookie process over real sockets: adds, reads, fences (Q7) and what it refuses."""

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code
from tests.support.aio import run
from tests.support.bookies.processes import AUTHENTICATING
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY, OTHER = master_key(b""), master_key(b"other")


def ask(bookie, *requests):
    """The responses to requests sent one after the other on one connection."""

    async def main():
        async with RawBookieClient(bookie) as client:
            return [await client.ask(request) for request in requests]

    return run(main())


def add(ledger, number, payload=b"payload", flags=0, key=KEY):
    """An add request."""
    return wire.encode_add(key, entry(ledger, number, payload), flags)


@pytest.fixture
def bookie(bookies):
    """One running bookie."""
    return bookies.start(1)[0]


def test_entry_added_is_read_back(bookie):
    added, read = ask(bookie, add(1, 0), wire.encode_read(1, 0))
    assert (added.error, added.ledger, added.entry) == (0, 1, 0)
    assert read.body == entry(1, 0, b"payload")


def test_another_master_key_is_unauthorized(bookie):
    fence = wire.encode_read(1, -1, wire.Flag.FENCE, OTHER)
    errors = [response.error for response in ask(bookie, add(1, 0), add(1, 1, key=OTHER), fence, add(1, 1))]
    assert errors == [Code.OK, Code.UNAUTHORIZED, Code.UNAUTHORIZED, Code.OK]


def test_a_fenced_ledger_accepts_recovery_adds_only(bookie):
    fence = wire.encode_read(1, -1, wire.Flag.FENCE | wire.Flag.HIGH_PRIORITY, KEY)
    recovery = wire.Flag.RECOVERY_ADD | wire.Flag.HIGH_PRIORITY
    answers = ask(bookie, add(1, 0), fence, add(1, 1), add(1, 1, flags=recovery), wire.encode_read(1, 1))
    assert [answer.error for answer in answers] == [0, 0, Code.FENCED, 0, 0]
    assert answers[1].body == entry(1, 0, b"payload")


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_fence_survives_the_process(bookie, end):
    fences = [wire.encode_read(ledger, -1, wire.Flag.FENCE, KEY) for ledger in (1, 2)]
    assert [answer.error for answer in ask(bookie, add(1, 0), *fences)] == [0, 0, Code.NO_ENTRY]
    getattr(bookie, end)()
    bookie.start()
    assert [answer.error for answer in ask(bookie, add(1, 1), add(2, 0))] == [Code.FENCED, Code.FENCED]


def test_a_fencing_read_sees_the_adds_sent_before_it_on_its_connection(bookie):
    async def main():
        async with RawBookieClient(bookie) as client:
            fence = wire.encode_read(1, -1, wire.Flag.FENCE, KEY)
            client.send(b"".join(add(1, number) for number in range(100)) + fence + add(1, 100))
            answers = [await client.response() for _ in range(102)]
            return {(answer.op, answer.entry): answer for answer in answers}

    answers = run(main())
    assert all(answers[wire.Op.ADD, number].error == 0 for number in range(100))
    assert answers[wire.Op.READ, -1].body == entry(1, 99, b"payload")
    assert answers[wire.Op.ADD, 100].error == Code.FENCED


def test_reads_of_missing_data_answer_no_ledger_or_no_entry(bookie):
    reads = (wire.encode_read(9, 0), wire.encode_read(9, -1), wire.encode_batch_read(9, 0, 7, 1, 1000))
    assert [answer.error for answer in ask(bookie, *reads)] == [Code.NO_LEDGER] * 3
    reads = (wire.encode_read(1, 1), wire.encode_batch_read(1, 1, 7, 1, 1000))
    answers = ask(bookie, add(1, 0), *reads)[1:]
    assert [(answer.error, answer.request_id) for answer in answers] == [(Code.NO_ENTRY, 0), (Code.NO_ENTRY, 7)]


@pytest.mark.parametrize("sizes", [[100] * 40, [10 * number for number in range(40)]])
def test_a_batch_read_ends_at_count_size_and_the_first_gap(bookie, sizes):
    numbers = [number for number in range(40) if number != 30]
    stored = {number: entry(1, number, bytes(sizes[number])) for number in numbers}

    def batch(first, count, size):
        return wire.encode_batch_read(1, first, 1, count, size)

    async def main():
        async with RawBookieClient(bookie) as client:
            client.send(b"".join(wire.encode_add(KEY, stored[number]) for number in numbers[:20]))
            client.send(b"".join(wire.encode_add(KEY, stored[number]) for number in numbers[20:]))
            for _ in numbers:
                await client.response()
            limits = (
                batch(5, 3, 1 << 20),
                batch(5, 0, 1 << 20),
                batch(25, 100, 1 << 20),
                batch(5, 9, 1),
                batch(0, 0, 900),
            )
            return [list(wire.batch_entries((await client.ask(request)).body)) for request in limits]

    three, all_before_gap, to_gap, one, sized = run(main())
    assert three == [stored[number] for number in (5, 6, 7)]
    assert all_before_gap == [stored[number] for number in range(5, 30)]
    assert to_gap == [stored[number] for number in range(25, 30)]
    assert one == [stored[5]]
    room = 900 - wire.BATCH_RESPONSE.size
    fitting = [number for number in range(30) if sum(4 + len(stored[n]) for n in range(number + 1)) <= room]
    assert sized == [stored[number] for number in fitting]


def test_entry_ids_with_the_gaps_of_striping_are_found(bookie):
    numbers = range(0, 300, 3)

    async def main():
        async with RawBookieClient(bookie) as client:
            client.send(b"".join(add(1, number, b"%d" % number) for number in numbers))
            for _ in numbers:
                await client.response()
            return [await client.ask(wire.encode_read(1, number)) for number in (0, 1, 150, 297, 298, -1)]

    answers = run(main())
    assert [answer.error for answer in answers] == [0, Code.NO_ENTRY, 0, 0, Code.NO_ENTRY, 0]
    assert answers[-1].body == entry(1, 297, b"297")


def test_negative_ids_are_bad_requests(bookie):
    requests = (add(1, -5), add(-1, 0), wire.encode_read(1, -2), wire.encode_read(-1, 0), add(1, 0))
    assert [answer.error for answer in ask(bookie, *requests)] == [Code.BAD_REQUEST] * 4 + [Code.OK]


def test_a_read_only_bookie_accepts_recovery_adds_only(bookies):
    (bookie,) = bookies.start(1, "--read-only")
    recovery = wire.Flag.RECOVERY_ADD | wire.Flag.HIGH_PRIORITY
    answers = ask(bookie, add(1, 0), add(1, 0, flags=recovery), wire.encode_read(1, 0))
    assert [answer.error for answer in answers] == [Code.READ_ONLY, 0, 0]


def test_a_bookie_that_requires_auth_answers_unauthorized_until_it_has_it(bookies):
    (bookie,) = bookies.start(1, *AUTHENTICATING)
    from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb

    async def main():
        async with RawBookieClient(bookie) as client:
            before = [(await client.ask(request)).error for request in (add(1, 0), wire.encode_read(1, 0))]
            for payload in (b"round-1", b"round-2"):
                message = pb.AuthMessage(authPluginName="golden-auth", payload=payload)
                client.send(wire.encode_auth(message.SerializeToString()))
                await client.frame()
            return before, (await client.ask(add(1, 0))).error

    assert run(main()) == ([Code.UNAUTHORIZED, Code.UNAUTHORIZED], Code.OK)
