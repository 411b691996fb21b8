"""What a turn accepts on a full disk fits the last journal file."""

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code
from mledger.bookie.server.storage.journal import RECORD, Journal
from mledger.bookie.server.storage.journal_thread import JournalThread
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")
ROOM = 100_000


def test_fences_of_one_turn_fit_the_room_that_is_left(tmp_path, monkeypatch):
    """Thousands of topics whose broker died are opened at once."""
    written = []
    submit = JournalThread.submit

    def noting(self, sequence, turn):
        written.append(RECORD.size + sum(map(len, turn.chunks)))
        submit(self, sequence, turn)

    async def main():
        async with serving(tmp_path / "bookie") as local, RawBookieClient(local) as client:
            assert (await client.ask(wire.encode_add(KEY, entry(1, 0, b"x")))).error == Code.OK
            turns = local.bookie.turns
            monkeypatch.setattr(Journal, "last_room", ROOM)
            monkeypatch.setattr(JournalThread, "submit", noting)
            codes = [turns.fence(turns.ledgers.get(ledger), KEY) for ledger in range(1, 5000)]
            await turns.drain()
            return codes

    codes = run(main())
    accepted = codes.count(Code.OK)
    assert codes == [Code.OK] * accepted + [Code.IO_ERROR] * (len(codes) - accepted)
    assert accepted > 500
    assert len(written) == 1
    assert written[0] <= ROOM
