"""BookKeeper's own client (protocol 2) on our bookies, and beside our client on bookies of both makes."""

import pytest

from mledger.bookie.client.client import BookKeeper
from mledger.bookie.errors import LedgerFenced, NoSuchLedger
from mledger.metastore.records.ledger_metadata import DigestType, LedgerState
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.java.driver import OriginalError

pytestmark = pytest.mark.interop

DIGESTS = ("CRC32C", "CRC32", "HMAC", "DUMMY")
PASSWORD = "secret"
PAYLOADS = [b"", b"x", *(bytes([number % 251]) * (number * 7) for number in range(1, 300))]
LARGEST = 5 * 1024 * 1024
FENCED, CLOSED, UNAUTHORIZED, NO_SUCH_ENTRY, NO_SUCH_LEDGER_IN_METADATA = -101, -11, -102, -13, -25


def java_create(java, handle="writer", *, digest="CRC32C", ensemble=3, ack_quorum=2):
    return java.call(
        "ledger.create",
        handle=handle,
        ensemble=ensemble,
        write_quorum=3,
        ack_quorum=ack_quorum,
        digest=digest,
        password=PASSWORD,
    )["ledger"]


def java_append(java, payloads, handle="writer"):
    return java.call("ledger.append", handle=handle, entries=[payload.hex() for payload in payloads])["entries"]


def java_open(java, ledger, *, digest="CRC32C", recovery=True, password=PASSWORD):
    return java.call("ledger.open", handle="reader", ledger=ledger, digest=digest, password=password, recovery=recovery)


def java_read(java, last, **how):
    answer = java.call("ledger.read", handle="reader", first=0, last=last, **how)
    return [bytes.fromhex(entry) for entry in answer["entries"]]


def with_client(url, work):
    """Run `await work(client)` with a client of ours."""

    async def main():
        async with await open_store(url) as store:
            client = BookKeeper(store)
            try:
                return await work(client)
            finally:
                await client.close()

    return run(main())


async def our_writer(client, *, digest="CRC32C", ensemble=3):
    return await client.create_ledger(
        ensemble, 3, 2, digest_type=DigestType[digest], password=PASSWORD.encode(), custom_metadata=(("by", b"us"),)
    )


async def our_reader(client, ledger):
    return await client.open_ledger(ledger, PASSWORD.encode())


@pytest.mark.parametrize("digest", DIGESTS)
def test_java_reads_back_what_it_wrote_to_our_bookies(java_on_ours, digest):
    ledger = java_create(java_on_ours, digest=digest)
    assert java_append(java_on_ours, PAYLOADS) == list(range(len(PAYLOADS)))
    java_on_ours.call("ledger.close", handle="writer")
    opened = java_open(java_on_ours, ledger, digest=digest, recovery=False)
    assert (opened["last_entry"], opened["length"]) == (len(PAYLOADS) - 1, sum(map(len, PAYLOADS)))
    assert java_read(java_on_ours, len(PAYLOADS) - 1) == PAYLOADS


def test_java_reads_batches_from_our_bookies(java_on_ours):
    ledger = java_create(java_on_ours)
    java_append(java_on_ours, PAYLOADS)
    java_on_ours.call("ledger.close", handle="writer")
    java_open(java_on_ours, ledger)
    assert java_read(java_on_ours, len(PAYLOADS) - 1, batch=True, max_bytes=20_000) == PAYLOADS


def test_java_writes_the_largest_message_to_our_bookies(java_on_ours):
    ledger = java_create(java_on_ours)
    payloads = [bytes([number]) * LARGEST for number in range(3)]
    java_append(java_on_ours, payloads)
    java_on_ours.call("ledger.close", handle="writer")
    java_open(java_on_ours, ledger)
    assert java_read(java_on_ours, 2) == payloads


@pytest.mark.parametrize("digest", DIGESTS)
def test_java_recovers_a_ledger_on_our_bookies_and_fences_its_writer(java_on_ours, digest):
    ledger = java_create(java_on_ours, digest=digest)
    java_append(java_on_ours, PAYLOADS)
    opened = java_open(java_on_ours, ledger, digest=digest)
    assert opened["closed"]
    assert (opened["last_entry"], opened["length"]) == (len(PAYLOADS) - 1, sum(map(len, PAYLOADS)))
    with pytest.raises(OriginalError) as refused:
        java_append(java_on_ours, [b"late"])
    assert refused.value.code == FENCED
    assert java_read(java_on_ours, len(PAYLOADS) - 1) == PAYLOADS


def test_java_recovers_an_empty_ledger_on_our_bookies(java_on_ours):
    ledger = java_create(java_on_ours)
    assert java_open(java_on_ours, ledger)["last_entry"] == -1


def test_java_gets_no_such_entry_past_the_end_on_our_bookies(java_on_ours):
    ledger = java_create(java_on_ours)
    java_append(java_on_ours, PAYLOADS[:5])
    java_on_ours.call("ledger.close", handle="writer")
    java_open(java_on_ours, ledger)
    with pytest.raises(OriginalError) as refused:
        java_on_ours.call("ledger.read", handle="reader", first=3, last=9, unconfirmed=True)
    assert refused.value.code == NO_SUCH_ENTRY


@pytest.mark.parametrize("by", ["java", "us"])
def test_java_is_refused_a_ledger_whose_password_it_does_not_know(side, by):
    if by == "java":
        ledger = java_create(side.java)
        side.java.call("ledger.close", handle="writer")
    else:

        async def write(client):
            writer = await our_writer(client)
            await writer.close()
            return writer.ledger_id

        ledger = with_client(side.url, write)
    with pytest.raises(OriginalError) as refused:
        java_open(side.java, ledger, password="guess")
    assert refused.value.code == UNAUTHORIZED


def test_java_continues_after_a_bookie_of_ours_was_killed(java_on_ours, our_bookies):
    # of an entry that has its quorum Java ignores a failure: only a quorum of all makes it change the ensemble
    ledger = java_create(java_on_ours, ack_quorum=3)
    java_append(java_on_ours, PAYLOADS[:100])
    [[_, ensemble]] = java_on_ours.call("ledger.metadata", ledger=ledger)["ensembles"]
    our_bookies.stop(ensemble[1])
    try:
        java_append(java_on_ours, PAYLOADS[100:])
        java_on_ours.call("ledger.close", handle="writer")
        metadata = java_on_ours.call("ledger.metadata", ledger=ledger)
        assert len(metadata["ensembles"]) == 2
        assert ensemble[1] not in metadata["ensembles"][1][1]
        java_open(java_on_ours, ledger)
        assert java_read(java_on_ours, len(PAYLOADS) - 1) == PAYLOADS
    finally:
        our_bookies.start(ensemble[1])


def test_what_java_deletes_is_gone_for_us(side):
    ledger = java_create(side.java)
    java_append(side.java, PAYLOADS[:5])
    side.java.call("ledger.close", handle="writer")
    side.java.call("ledger.delete", ledger=ledger)

    async def look(client):
        with pytest.raises(NoSuchLedger):
            await our_reader(client, ledger)

    with_client(side.url, look)


def test_what_we_delete_is_gone_for_java(side):
    async def write_and_delete(client):
        writer = await our_writer(client)
        await writer.append(PAYLOADS[:5])
        await writer.close()
        await client.delete_ledger(writer.ledger_id)
        return writer.ledger_id

    ledger = with_client(side.url, write_and_delete)
    with pytest.raises(OriginalError) as refused:
        java_open(side.java, ledger)
    assert refused.value.code == NO_SUCH_LEDGER_IN_METADATA


@pytest.mark.parametrize("ensemble", [3, 4])
@pytest.mark.parametrize("digest", DIGESTS)
def test_java_reads_what_we_wrote(side, digest, ensemble):
    async def write(client):
        writer = await our_writer(client, digest=digest, ensemble=ensemble)
        await writer.append(PAYLOADS[:100])
        await writer.append(PAYLOADS[100:])
        await writer.close()
        return writer.ledger_id

    ledger = with_client(side.url, write)
    metadata = side.java.call("ledger.metadata", ledger=ledger)
    assert metadata["state"] == "CLOSED"
    assert metadata["custom"] == {"by": "us"}
    opened = java_open(side.java, ledger, digest=digest)
    assert (opened["last_entry"], opened["length"]) == (len(PAYLOADS) - 1, sum(map(len, PAYLOADS)))
    assert java_read(side.java, len(PAYLOADS) - 1) == PAYLOADS


@pytest.mark.parametrize("ensemble", [3, 4])
@pytest.mark.parametrize("digest", DIGESTS)
def test_we_read_what_java_wrote(side, digest, ensemble):
    ledger = java_create(side.java, digest=digest, ensemble=ensemble)
    java_append(side.java, PAYLOADS)
    side.java.call("ledger.close", handle="writer")

    async def read(client):
        reader = await our_reader(client, ledger)
        assert (reader.last_entry, reader.length) == (len(PAYLOADS) - 1, sum(map(len, PAYLOADS)))
        assert await reader.read(0, reader.last_entry) == PAYLOADS

    with_client(side.url, read)


@pytest.mark.parametrize("ensemble", [3, 4])
def test_java_recovers_what_we_left_open_and_fences_us(side, ensemble):
    async def write(client):
        writer = await our_writer(client, ensemble=ensemble)
        await writer.append(PAYLOADS)
        opened = java_open(side.java, writer.ledger_id)
        assert (opened["last_entry"], opened["length"]) == (len(PAYLOADS) - 1, sum(map(len, PAYLOADS)))
        with pytest.raises(LedgerFenced):
            await writer.append([b"late"])
        await writer.abandon()

    with_client(side.url, write)
    assert java_read(side.java, len(PAYLOADS) - 1) == PAYLOADS


@pytest.mark.parametrize("ensemble", [3, 4])
def test_we_recover_what_java_left_open_and_fence_it(side, ensemble):
    ledger = java_create(side.java, ensemble=ensemble)
    java_append(side.java, PAYLOADS)

    async def recover(client):
        reader = await our_reader(client, ledger)
        assert (reader.last_entry, reader.length) == (len(PAYLOADS) - 1, sum(map(len, PAYLOADS)))
        assert await reader.read(0, reader.last_entry) == PAYLOADS

    with_client(side.url, recover)
    with pytest.raises(OriginalError) as refused:
        java_append(side.java, [b"late"])
    assert refused.value.code in (FENCED, CLOSED)  # closed, if Java heard of it by its watch before it wrote
    assert side.java.call("ledger.metadata", ledger=ledger)["state"] == "CLOSED"


def test_we_peek_at_what_java_is_writing_without_disturbing_it(side):
    ledger = java_create(side.java)
    java_append(side.java, PAYLOADS[:10])

    async def peek(client):
        return await client.peek(ledger, PASSWORD.encode())

    seen = with_client(side.url, peek)
    assert (seen.last_entry, seen.closed) == (9, False)
    assert java_append(side.java, PAYLOADS[10:20]) == list(range(10, 20))


def test_we_continue_after_one_of_java_s_bookies_went_away(java_on_java, java_bookies):
    stopped, more = None, []

    async def write(client):
        nonlocal stopped
        writer = await our_writer(client)
        await writer.append(PAYLOADS[:100])
        stopped = writer.metadata.ensemble[0]
        java_bookies.stop(stopped)
        await writer.append(PAYLOADS[100:])
        while len(writer.metadata.segments) == 1:  # its end may be noticed after the last acknowledgement
            await writer.append([b"more"])
            more.append(b"more")
        return writer.ledger_id, await writer.close()

    try:
        ledger, metadata = with_client(java_bookies.tree.url, write)
        assert metadata.state is LedgerState.CLOSED
        assert len(metadata.segments) == 2
        assert stopped not in metadata.ensemble
        java_open(java_on_java, ledger)
        assert java_read(java_on_java, len(PAYLOADS) + len(more) - 1) == PAYLOADS + more
    finally:
        java_bookies.start(stopped)
