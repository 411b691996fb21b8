"""A bookie whose index is damaged where it has a ledger: requests for other ledgers on the connection go on."""

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from tests.support.aio import run
from tests.support.bookies.bookie_copies import copy_as_killed
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry
from tests.support.bookies.version3 import add, request, response

KEY = master_key(b"")
DAMAGED, WHOLE = 1, 2


def damage(local, monkeypatch: pytest.MonkeyPatch, name: str, *, forgotten: bool = True) -> None:
    """Have a method of the index meet a damaged block, as RocksDB does, where it is asked for one of the ledgers."""
    index = local.bookie.index
    unharmed = getattr(index, name)

    def read(ledger, *arguments):
        if ledger == DAMAGED:
            raise Exception("Corruption: block checksum mismatch")
        return unharmed(ledger, *arguments)

    monkeypatch.setattr(index, name, read)
    if forgotten:
        local.bookie.turns.ledgers.forget(DAMAGED)


def read_3(ledger, number, **fields):
    return request(pb.READ_ENTRY, 9, ledgerId=ledger, entryId=number, **fields)


REQUESTS = [
    pytest.param(wire.encode_add(KEY, entry(DAMAGED, 1, b"more")), id="add"),
    pytest.param(wire.encode_read(DAMAGED, 0), id="read"),
    pytest.param(wire.encode_batch_read(DAMAGED, 0, 1, 3, 1000), id="batch read"),
    pytest.param(wire.encode_read(DAMAGED, wire.LAST_ENTRY, wire.Flag.FENCE, KEY), id="fencing read"),
]
REQUESTS_3 = [
    pytest.param(add(DAMAGED, 1), id="add"),
    pytest.param(read_3(DAMAGED, 0), id="read"),
    pytest.param(read_3(DAMAGED, -1, flag=pb.ReadRequest.FENCE_LEDGER, masterKey=KEY), id="fencing read"),
    pytest.param(read_3(DAMAGED, -1, previousLAC=0, timeOut=1), id="long poll"),
    pytest.param(request(pb.READ_LAC, 9, ledgerId=DAMAGED), id="read of the last confirmed"),
]


async def fill(local) -> None:
    async with RawBookieClient(local) as client:
        for ledger in (DAMAGED, WHOLE):
            assert (await client.ask(wire.encode_add(KEY, entry(ledger, 0, b"payload")))).error == 0


@pytest.mark.parametrize("name", ["ledger", "last_run"])
@pytest.mark.parametrize("asked", REQUESTS)
def test_a_request_is_answered_with_an_error(tmp_path, monkeypatch, name, asked):
    async def main():
        async with serving(tmp_path / "bookie") as local:
            await fill(local)
            damage(local, monkeypatch, name)
            async with RawBookieClient(local) as client:
                assert (await client.ask(asked)).error == Code.IO_ERROR
                assert (await client.ask(wire.encode_read(WHOLE, 0))).error == 0

    run(main())


@pytest.mark.parametrize("asked", REQUESTS_3)
def test_a_request_of_version_3_is_answered_with_an_error(tmp_path, monkeypatch, asked):
    async def main():
        async with serving(tmp_path / "bookie") as local:
            await fill(local)
            damage(local, monkeypatch, "ledger")
            async with RawBookieClient(local) as client:
                client.send(asked + read_3(WHOLE, 0))
                statuses = {response(await client.frame()).status for _ in range(2)}
                assert statuses == {pb.EIO, pb.EOK}

    run(main())


@pytest.mark.parametrize("asked", [wire.encode_read(DAMAGED, 0), read_3(DAMAGED, 0)])
def test_an_entry_whose_row_is_damaged_is_unreadable(tmp_path, monkeypatch, asked):
    async def main():
        async with serving(tmp_path / "bookie") as local:
            await fill(local)
            damage(local, monkeypatch, "run_at", forgotten=False)
            async with RawBookieClient(local) as client:
                client.send(asked)
                frame = await client.frame()
                three = frame[wire.LENGTH.size] == wire.VERSION_3_TAG
                assert (response(frame).status == pb.EIO) if three else (wire.decode_response(frame).error == 101)

    run(main())


async def lose_rows(directory) -> None:
    """Give a bookie entries that were added again, whose rows take several blocks, and damage one of these."""
    entries = [999, *range(900)]
    async with serving(directory) as local, RawBookieClient(local) as client:
        client.send(b"".join(wire.encode_add(KEY, entry(DAMAGED, number, b"first")) for number in entries))
        for _ in entries:
            assert (await client.response()).error == 0
    table = max((directory / "store").glob("*.sst"), key=lambda path: path.stat().st_size)
    with table.open("r+b") as file:
        file.seek(table.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes((byte ^ 0xFF,)))


def test_an_entry_is_added_again_though_the_row_that_it_replaces_is_damaged(tmp_path):
    """Recovery and re-replication add entries again; a restart enters them from the journal."""

    async def main():
        await lose_rows(tmp_path / "bookie")
        async with serving(tmp_path / "bookie") as local, RawBookieClient(local) as client:
            codes = [(await client.ask(wire.encode_read(DAMAGED, number))).error for number in range(900)]
            lost = codes.index(Code.IO_ERROR)
            assert lost > 0
            assert (await client.ask(wire.encode_add(KEY, entry(DAMAGED, lost, b"again")))).error == 0
            assert (await client.ask(wire.encode_read(DAMAGED, lost))).body == entry(DAMAGED, lost, b"again")
            copy_as_killed(tmp_path / "bookie", tmp_path / "as-killed")
        async with serving(tmp_path / "as-killed") as local, RawBookieClient(local) as client:
            assert (await client.ask(wire.encode_read(DAMAGED, lost))).body == entry(DAMAGED, lost, b"again")
            assert (await client.ask(wire.encode_read(DAMAGED, 0))).body == entry(DAMAGED, 0, b"first")

    run(main())
