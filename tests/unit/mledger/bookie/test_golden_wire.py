"""Every frame that Java's client sent a Java bookie, sent to ours in the same order: the answers are Java's.

Bookies and connections last from one recorded case to the next, as they did when the frames were captured.
"""

import asyncio
import contextlib

import pytest
from msgspec.structs import replace

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from mledger.bookie.server.serving import version3_messages
from mledger.bookie.server.storage.rows.ledger_data import LedgerData
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry
from tests.support.recordings import golden
from tests.support.recordings.golden_auth import GoldenAuth

CASES = (
    "auth-create-add",
    "add-sizes",
    "add-pipelined",
    "read-entries",
    "read-last-confirmed",
    "try-read-last-confirmed",
    "batch-read",
    "batch-read-size",
    "close",
    "open-closed",
    "open-missing",
    "open-wrong-password",
    "read-explicit-lac",
    "bookie-info",
    "list-entries",
    "explicit-lac",
    "recovery-write",
    "recovery-open",
    "add-after-fence",
    "recovery-empty",
    "recovery-partial-write",
    "recovery-partial-open",
    "missing",
    "fence-unknown-ledger",
    "fence-wrong-key",
    "limbo",
    "add-raw",
    "deleted",
)
RAW = (
    "no-auth",
    "auth-wrong-plugin",
    "auth-refused",
    "v3-without-auth",
    "v3-frame-on-v2-connection",
    "v2-frame-on-v3-connection",
    "bad-version",
    "version-1",
    "op-read-lac",
    "op-unknown",
    "auth-then-version-1",
)
VERSION_3_CASES = (
    "v3-auth-create-add",
    "v3-add-sizes",
    "v3-add-pipelined",
    "v3-read-entries",
    "v3-read-last-confirmed",
    "v3-try-read-last-confirmed",
    "v3-open-closed",
    "v3-open-missing",
    "v3-open-wrong-password",
    "v3-read-explicit-lac",
    "v3-bookie-info",
    "v3-list-entries",
    "v3-long-poll",
    "v3-close",
    "v3-deferred-sync-force",
    "v3-explicit-lac",
    "v3-recovery-write",
    "v3-recovery-open",
    "v3-add-after-fence",
    "v3-recovery-empty",
    "v3-recovery-partial-write",
    "v3-recovery-partial-open",
    "v3-missing",
    "v3-fence-wrong-key",
    "v3-fence-unknown-ledger",
    "v3-add-raw",
    "v3-deleted",
    "v3-limbo",
    "raw-v3-without-auth",
    "raw-v3-write-lac-no-ledger",
)
VARIANTS = ("0", "1")
READ_ONLY = golden.files("wire/v[23]-read-only-*.json")
KNOWN_BEFORE = ("raw-v2-frame-on-v3-connection", "1")
"""Here Java's bookie knew ledger 2 from an operation that is not among the recorded frames."""
ROUND_2 = bytes.fromhex("0000001a020300000a0b676f6c64656e2d617574681207726f756e642d32")
VERSION_3_ROUND_2 = bytes.fromhex("000000210a0608031005180bb206160a0b676f6c64656e2d617574681207726f756e642d32")


def stored(file, number):
    """The bytes after the ids of the `number`th add in a recorded case."""
    requests = [bytes.fromhex(f["hex"]) for f in golden.load(file)["frames"] if f["direction"] == "client->bookie"]
    if is_version_3(requests[0]):
        adds = [pb.Request.FromString(request[4:]).addRequest.body for request in requests]
    else:
        adds = [request[wire.ENTRY_AT :] for request in requests if request[5] == wire.Op.ADD]
    return [add for add in adds if add][number][16:]


def is_version_3(frame):
    return frame[4] == wire.VERSION_3_TAG


def comparable(frame):
    """An answer, without the parts that depend on the time or on the disk."""
    if not is_version_3(frame):
        return frame
    response = pb.Response.FromString(frame[4:])
    if response.HasField("getBookieInfoResponse"):
        info = response.getBookieInfoResponse
        assert 0 < info.freeDiskSpace < info.totalDiskCapacity
        info.freeDiskSpace = info.totalDiskCapacity = 1
    elif response.readResponse.HasField("lacUpdateTimestamp"):
        assert response.readResponse.lacUpdateTimestamp > 1_700_000_000_000
        response.readResponse.lacUpdateTimestamp = 1
    else:
        return frame
    return version3_messages.frame(response)


class Replayer:
    """Sends captured frames where Java's client sent them, and collects the answers."""

    def __init__(self, stack, path):
        self.stack, self.path = stack, path
        self.bookies, self.connections = {}, {}

    async def bookie(self, name):
        if name not in self.bookies:
            context = serving(self.path / name, auth=GoldenAuth)
            self.bookies[name] = await self.stack.enter_async_context(context)
        return self.bookies[name]

    async def connection(self, frame):
        key = (frame["bookie"], frame["conn"])
        if key not in self.connections:
            address = (await self.bookie(frame["bookie"])).address
            reader, writer = await asyncio.open_connection(*address, limit=1 << 24)
            self.stack.callback(writer.close)
            self.connections[key] = reader, writer
        return self.connections[key]

    async def play(self, frames, after_answer=None):
        """The answers, ours and Java's, by connection, each sorted: bookies may answer in any order."""
        ours, javas = {}, {}
        for frame in frames:
            key = (frame["bookie"], frame["conn"])
            reader, writer = await self.connection(frame)
            to_bookie = frame["direction"] == "client->bookie"
            if frame.get("closed"):
                if not to_bookie and (frame["bookie"], frame["conn"]) not in self.closed_by_client(frames, frame):
                    ours.setdefault(key, []).append(await reader.read(-1))
                    javas.setdefault(key, []).append(b"")
                continue
            data = bytes.fromhex(frame["hex"])
            if to_bookie:
                writer.write(data)
                continue
            head = await reader.readexactly(4)
            answer = head + await reader.readexactly(int.from_bytes(head, "big"))
            ours.setdefault(key, []).append(comparable(answer))
            javas.setdefault(key, []).append(comparable(data))
            if after_answer is not None:
                await after_answer(sum(map(len, ours.values())))
        return {key: sorted(answers) for key, answers in ours.items()}, {k: sorted(a) for k, a in javas.items()}

    def limbo(self, ledger):
        """Puts a ledger into limbo after the first answer."""

        async def set_limbo(answers):
            if answers == 1:
                state = (await self.bookie("bookie-0")).bookie.turns.ledgers.get(ledger)
                assert state.record is not None
                state.record = replace(state.record, limbo=True)

        return set_limbo

    @staticmethod
    def closed_by_client(frames, closing):
        """Connections whose client closed before their bookie did."""
        before = frames[: frames.index(closing)]
        return {(f["bookie"], f["conn"]) for f in before if f.get("closed") and f["direction"] == "client->bookie"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_answers_equal_those_of_java_s_bookie(variant, tmp_path):
    async def main():
        async with contextlib.AsyncExitStack() as stack:
            replayer = Replayer(stack, tmp_path)

            for case in (*(f"v2-{name}" for name in CASES), *(f"raw-{name}" for name in RAW)):
                frames = golden.load(f"wire/{case}-{variant}.json")["frames"]
                if (case, variant) == KNOWN_BEFORE:
                    state = (await replayer.bookie("bookie-0")).bookie.turns.ledgers.get(2)
                    state.record = LedgerData(master_key(b""))
                ours, javas = await replayer.play(
                    frames, replayer.limbo(7100 + int(variant)) if case == "v2-limbo" else None
                )
                assert ours == javas, case
            if f"wire/v2-read-only-{variant}.json" in READ_ONLY:
                (await replayer.bookie("bookie-0")).bookie.turns.read_only = True
                ours, javas = await replayer.play(golden.load(f"wire/v2-read-only-{variant}.json")["frames"])
                assert ours == javas, "v2-read-only"

    run(main())


@pytest.mark.parametrize("variant", VARIANTS)
def test_version_3_answers_equal_those_of_java_s_bookie(variant, tmp_path):
    async def main():
        async with contextlib.AsyncExitStack() as stack:
            replayer = Replayer(stack, tmp_path)
            for case in VERSION_3_CASES:
                limbo = replayer.limbo(7000 + int(variant)) if case == "v3-limbo" else None
                ours, javas = await replayer.play(version_3_frames(case, variant), limbo)
                assert ours == javas, case
            if f"wire/v3-read-only-{variant}.json" in READ_ONLY:
                (await replayer.bookie("bookie-0")).bookie.turns.read_only = True
                ours, javas = await replayer.play(version_3_frames("v3-read-only", variant))
                assert ours == javas, "v3-read-only"

    run(main())


def version_3_frames(case, variant):
    """A case's frames. Java's other storage answers a list of entries so; its default storage never does."""
    if case == "v3-list-entries":
        asked = golden.load(f"wire/v3-list-entries-{variant}.json")["frames"][0]
        frames = golden.load(f"wire/v3-list-entries-sorted-storage-{variant}.json")["frames"]
        return [frame | {"bookie": asked["bookie"], "conn": asked["conn"]} for frame in frames]
    return golden.load(f"wire/{case}-{variant}.json")["frames"]


@pytest.mark.parametrize("file", golden.files("wire/v3-list-entries-sorted-storage-*.json"))
def test_a_list_of_entries_equals_that_of_java_s_other_storage(file, tmp_path):
    frames = golden.load(file)["frames"]
    request, answer = (bytes.fromhex(frame["hex"]) for frame in frames)
    ledger = pb.Request.FromString(request[4:]).getListOfEntriesOfLedgerRequest.ledgerId

    async def main():
        async with serving(tmp_path / "bookie") as local, RawBookieClient(local) as client:
            for number in range(18):
                await client.ask(wire.encode_add(master_key(b""), entry(ledger, number, b"payload")))
            async with RawBookieClient(local) as asking:
                asking.send(request)
                return await asking.frame()

    assert run(main()) == answer


@pytest.mark.parametrize("file", golden.files("wire/v2-list-entries-sorted-storage-*.json"))
def test_a_version_2_connection_cannot_ask_for_a_list_of_entries(file, tmp_path):
    async def main():
        async with contextlib.AsyncExitStack() as stack:
            frames = golden.load(file)["frames"]
            replayer = Replayer(stack, tmp_path)
            reader, writer = await replayer.connection(frames[0])
            writer.write(ROUND_2)
            await reader.readexactly(30)
            return await replayer.play(frames)

    ours, javas = run(main())
    assert ours == javas


@pytest.mark.parametrize("file", golden.files("wire/v?-add-raw-sorted-storage-*.json"))
def test_a_read_returns_the_last_of_two_adds_where_java_s_other_storage_keeps_the_first(file, tmp_path):
    async def main():
        async with contextlib.AsyncExitStack() as stack:
            frames = golden.load(file)["frames"]
            replayer = Replayer(stack, tmp_path)
            reader, writer = await replayer.connection(frames[0])
            writer.write(ROUND_2 if "wire/v2" in file else VERSION_3_ROUND_2)
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            return await replayer.play(frames)

    ours, javas = run(main())
    first, last = stored(file, 0), stored(file, 2)
    for key, answers in javas.items():
        kept = [answer.replace(first, last) for answer in answers]
        assert sorted(ours[key]) == sorted(kept)
