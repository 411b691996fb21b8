"""A bookie process asked in version 3, which Java's clients use by default."""

import asyncio
import time

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from mledger.bookie.server.serving.long_polls import AnswerRoom
from mledger.bookie.server.storage.journal import file_path
from mledger.bookie.server.storage.ledgers import MOST_LEDGERS
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry
from tests.support.bookies.version3 import add, request, response

KEY, OTHER = master_key(b""), master_key(b"other")
FENCE, PIGGYBACK = pb.ReadRequest.FENCE_LEDGER, pb.ReadRequest.ENTRY_PIGGYBACK


@pytest.fixture
def bookie(bookies):
    """One running bookie."""
    return bookies.start(1)[0]


async def ask(client, *requests):
    """The responses to requests sent one after the other."""
    answers = []
    for frame in requests:
        client.send(frame)
        answers.append(response(await client.frame()))
    return answers


def asked(bookie, *requests):
    """The same on a connection of its own."""

    async def main():
        async with RawBookieClient(bookie) as client:
            return await ask(client, *requests)

    return run(main())


def read(ledger, number, **fields):
    return request(pb.READ_ENTRY, 9, ledgerId=ledger, entryId=number, **fields)


def long_poll(ledger, previous, wait_s, transaction=9):
    fields = {"previousLAC": previous, "timeOut": round(wait_s * 1000), "flag": PIGGYBACK}
    return request(pb.READ_ENTRY, transaction, ledgerId=ledger, entryId=-1, **fields)


def lac_packet(ledger, confirmed):
    return ledger.to_bytes(8, "big") + confirmed.to_bytes(8, "big") + b"dgst"


def write_lac(ledger, confirmed, key=KEY):
    fields = {"lac": confirmed, "masterKey": key, "body": lac_packet(ledger, confirmed)}
    return request(pb.WRITE_LAC, 8, ledgerId=ledger, **fields)


def test_entries_added_in_either_version_are_read_in_both(bookie):
    added, found = asked(bookie, add(1, 0), read(1, 0))
    assert (added.status, added.addResponse.status, added.addResponse.entryId) == (0, 0, 0)
    assert found.readResponse.body == entry(1, 0, b"payload")

    async def main():
        async with RawBookieClient(bookie) as client:
            await client.ask(wire.encode_add(KEY, entry(1, 1, b"in version 2")))
            return (await client.ask(wire.encode_read(1, 0))).body

    assert run(main()) == entry(1, 0, b"payload")
    assert asked(bookie, read(1, 1))[0].readResponse.body == entry(1, 1, b"in version 2")


def test_adds_of_one_write_are_answered_in_order_and_survive_the_process(bookie):
    sizes = [10, 500, 500, 500, 90] * 200

    async def main():
        async with RawBookieClient(bookie) as client:
            frames = [add(1, number, bytes(size), transaction=number) for number, size in enumerate(sizes)]
            client.send(b"".join(frames))
            return [response(await client.frame()) for _ in frames]

    answers = run(main())
    assert [(answer.status, answer.header.txnId, answer.addResponse.entryId) for answer in answers] == [
        (pb.EOK, number, number) for number in range(len(sizes))
    ]
    bookie.kill()
    bookie.start()
    for answer, number in zip(asked(bookie, read(1, 0), read(1, 999), read(1, -1)), (0, 999, 999), strict=True):
        assert answer.readResponse.body == entry(1, number, bytes(sizes[number]))
        assert answer.readResponse.maxLAC == 998


def test_reads_of_one_write_are_answered_in_order_each_as_if_alone(bookie):
    sizes = {number: number * 37 % 900 for number in range(600) if number % 5 != 3}
    asked = [
        *(read(1, number) for number in range(0, 620, 3)),
        *(read(ledger, 0) for ledger in (1, 2, 3, 1, 2)),
        read(1, 7),
        read(1, -1, masterKey=OTHER, flag=FENCE),
        read(1, -1),
        read(1, 8, previousLAC=0),
        *(read(1, number) for number in (598, 597, 599)),
        request(pb.READ_LAC, 9, ledgerId=1),
        *(read(2, number) for number in range(10)),
    ]

    async def main():
        async with RawBookieClient(bookie) as client:
            adds = [add(1, number, bytes(size), confirmed=590) for number, size in sizes.items()]
            adds += [add(2, 5), add(2, 0), add(2, 1), add(2, 0, b"again")]
            client.send(b"".join(adds))
            for _ in adds:
                await client.frame()
            alone = await ask(client, *asked)
            client.send(b"".join(asked))
            return alone, [response(await client.frame()) for _ in asked]

    alone, together = run(main())
    assert together == alone
    for answer, number in zip(alone, range(0, 620, 3), strict=False):
        found = number in sizes
        assert (answer.status, answer.readResponse.entryId) == (pb.EOK if found else pb.ENOENTRY, number)
        assert answer.readResponse.body == (entry(1, number, bytes(sizes[number]), 590) if found else b"")
    assert [answer.readResponse.body[-5:] for answer in alone[-10:-8]] == [b"again", b"yload"]


def test_a_fenced_ledger_accepts_recovery_adds_only(bookie):
    fences = read(1, -1, masterKey=OTHER, flag=FENCE), read(1, -1, flag=FENCE), read(1, -1, masterKey=KEY, flag=FENCE)
    recovery = add(1, 1, recovery=True, priority=100)
    answers = asked(bookie, add(1, 0), *fences, add(1, 1), recovery, write_lac(1, 1), read(1, 1))
    assert [answer.status for answer in answers] == [0, pb.EUA, pb.EUA, 0, pb.EFENCED, 0, 0, 0]
    assert answers[3].readResponse.body == entry(1, 0, b"payload")
    bookie.kill()
    bookie.start()
    assert [answer.status for answer in asked(bookie, add(1, 2))] == [pb.EFENCED]


def test_an_add_that_cannot_be_stored_is_refused_so_that_its_writer_stops(bookie):
    short_key, short_body, other_ids = (
        add(1, 0, key=b"short"),
        add(1, 0, body=b"short"),
        add(1, 0, body=entry(2, 0, b"")),
    )
    answers = asked(bookie, short_key, short_body, other_ids, add(1, -5), add(1, 0))
    assert [answer.status for answer in answers] == [pb.EUA, pb.EUA, pb.EUA, pb.EBADREQ, pb.EOK]


def test_operations_without_messages_are_bad_requests(bookie):
    operations = (pb.RANGE_READ_ENTRY, pb.RANGE_ADD_ENTRY, pb.BATCH_READ_ENTRY, pb.START_TLS)
    assert {answer.status for answer in asked(bookie, *map(request, operations))} == {pb.EBADREQ}


def test_the_explicit_lac_is_read_back_and_survives_the_process(bookie):
    before, written, refused, found = asked(
        bookie,
        request(pb.READ_LAC, ledgerId=1),
        write_lac(1, 5),
        write_lac(1, 6, OTHER),
        request(pb.READ_LAC, ledgerId=1),
    )
    assert (before.status, written.status, refused.status) == (pb.ENOENTRY, pb.EOK, pb.EUA)
    assert (found.status, found.readLacResponse.lacBody) == (pb.EOK, lac_packet(1, 5))
    bookie.kill()
    bookie.start()
    found, _, both, entry_read = asked(
        bookie, request(pb.READ_LAC, ledgerId=1), add(1, 0), request(pb.READ_LAC, ledgerId=1), read(1, 0)
    )
    assert found.readLacResponse.lacBody == lac_packet(1, 5)
    assert both.readLacResponse.lastEntryBody == entry(1, 0, b"payload")
    assert entry_read.readResponse.maxLAC == 5


def test_a_force_follows_the_adds_before_it(bookie):
    async def main():
        async with RawBookieClient(bookie) as client:
            adds = [add(1, number, transaction=number, write_flags=1) for number in range(50)]
            client.send(b"".join(adds) + request(pb.FORCE_LEDGER, 99, ledgerId=1))
            return [response(await client.frame()).header.txnId for _ in range(51)]

    assert run(main())[-1] == 99


@pytest.mark.parametrize("waker", [add(1, 2), write_lac(1, 1)])
def test_a_long_poll_is_answered_when_the_lac_passes_its_own(bookie, waker):
    async def main():
        async with RawBookieClient(bookie) as reader, RawBookieClient(bookie) as writer:
            await ask(writer, add(1, 0), add(1, 1))
            reader.send(long_poll(1, 0, 60))
            (other,) = await ask(reader, read(1, 0))
            await ask(writer, waker)
            return other, response(await reader.frame()).readResponse

    other, polled = run(main())
    assert other.readResponse.entryId == 0
    assert (polled.entryId, polled.body, polled.maxLAC) == (1, entry(1, 1, b"payload"), 1)
    assert abs(polled.lacUpdateTimestamp - time.time() * 1000) < 60_000


def test_a_long_poll_is_answered_without_its_entry_while_many_answers_wait(tmp_path):
    async def main():
        async with (
            serving(tmp_path / "bookie") as local,
            RawBookieClient(local) as reader,
            RawBookieClient(local) as writer,
        ):
            local.bookie._service._room = AnswerRoom(asyncio.get_running_loop(), 0)
            await ask(writer, add(1, 0), add(1, 1))
            without_flag = request(pb.READ_ENTRY, 8, ledgerId=1, entryId=1, previousLAC=0, timeOut=60_000)
            reader.send(long_poll(1, 0, 60) + without_flag)
            await ask(reader, read(1, 0))
            await ask(writer, add(1, 2))
            polled = [response(await reader.frame()) for _ in range(2)]
            return {each.header.txnId: each for each in polled}, (await ask(reader, read(1, 1)))[0]

    polled, plain = run(main())
    assert (polled[9].status, polled[9].readResponse.maxLAC, polled[9].readResponse.HasField("body")) == (0, 1, False)
    assert polled[8].status == pb.ETOOMANYREQUESTS
    assert plain.readResponse.body == entry(1, 1, b"payload")


def test_a_long_poll_is_answered_although_its_ledger_has_left_the_bookies_memory(bookie):
    others = b"".join([wire.encode_read(ledger, 0) for ledger in range(2, MOST_LEDGERS + 3)])

    async def main():
        async with (
            RawBookieClient(bookie) as reader,
            RawBookieClient(bookie) as writer,
            RawBookieClient(bookie) as crowd,
        ):
            await ask(writer, add(1, 0), add(1, 1))
            reader.send(long_poll(1, 0, 60))
            await ask(reader, read(1, 0))
            crowd.send(others)
            for _ in range(MOST_LEDGERS + 1):
                await crowd.frame()
            await ask(writer, add(1, 2))
            return response(await reader.frame()).readResponse

    polled = run(main())
    assert (polled.entryId, polled.maxLAC) == (1, 1)
    assert polled.HasField("lacUpdateTimestamp")  # the writer's add answered it, not the end of its time


def test_a_long_poll_ends_when_its_time_is_up(bookie):
    answers = asked(bookie, long_poll(1, 0, 60), add(1, 0), long_poll(1, 0, 0.05), long_poll(1, -2, 60))
    assert [answer.status for answer in answers] == [pb.ENOLEDGER, 0, 0, 0]
    timed_out, at_once = answers[2].readResponse, answers[3].readResponse
    assert (timed_out.entryId, timed_out.maxLAC, timed_out.HasField("body")) == (-1, -1, False)
    assert (at_once.entryId, at_once.maxLAC) == (-1, -1)


def test_a_list_of_entries_is_complete(bookie):
    numbers = [number for number in range(3000) if number % 3 != 2]

    async def main():
        async with RawBookieClient(bookie) as client:
            client.send(b"".join(add(1, number, transaction=number) for number in numbers))
            for _ in numbers:
                await client.frame()
            listed = request(pb.GET_LIST_OF_ENTRIES_OF_LEDGER, ledgerId=1)
            missing = request(pb.GET_LIST_OF_ENTRIES_OF_LEDGER, ledgerId=2)
            return await ask(client, listed, missing)

    listed, missing = run(main())
    available = listed.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger
    assert available[64:] == b"".join(
        number.to_bytes(size, "big") for number, size in ((0, 8), (2997, 8), (2, 4), (3, 4))
    )
    assert missing.status == pb.ENOLEDGER


def test_a_read_only_bookie_accepts_recovery_adds_only(bookies):
    (bookie,) = bookies.start(1, "--read-only")
    answers = asked(bookie, add(1, 0), add(1, 0, recovery=True, priority=100), write_lac(1, 0), read(1, 0))
    assert [answer.status for answer in answers] == [pb.EREADONLY, 0, pb.EREADONLY, 0]


def test_a_ledger_with_an_unreadable_last_entry_costs_its_other_readers_only_the_lac(tmp_path):
    async def main():
        async with serving(tmp_path / "bookie") as local, RawBookieClient(local) as client:
            await ask(client, add(1, 0), add(1, 1), add(2, 0))
            last, journal = local.bookie.index.last_run(1), local.bookie.journal_path
        with open(file_path(journal, last.file), "r+b") as file:
            file.seek(last.offset)
            file.write(bytes(last.length))
        async with serving(tmp_path / "bookie") as local, RawBookieClient(local) as client:
            return await ask(client, read(1, 0), read(1, 1), long_poll(1, 0, 0.05), read(2, 0))

    first, *others = run(main())
    assert (first.status, first.readResponse.body) == (0, entry(1, 0, b"payload"))
    assert not first.readResponse.HasField("maxLAC")
    assert [answer.status for answer in others] == [pb.EIO, pb.EIO, 0]
