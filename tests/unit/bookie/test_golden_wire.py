"""Every version 2 frame that Java's client sent a Java bookie, sent to ours in the same order: the answers are Java's.

Bookies and connections live on from one recorded case to the next, as they did when the frames were captured. Version 3
requests are answered here as ones that are not supported, so their answers are compared where they are auth only.
"""

import asyncio
import contextlib
from dataclasses import replace

import pytest

from bookie import wire
from bookie.digest import master_key
from bookie.server.index import LedgerRecord
from tests.support import golden
from tests.support.aio import run
from tests.support.golden_auth import GoldenAuth
from tests.support.local_bookie import serving

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
VARIANTS = ("0", "1")
READ_ONLY = golden.files("wire/v2-read-only-*.json")
KNOWN_BEFORE = ("raw-v2-frame-on-v3-connection", "1")
"""Here Java's bookie knew ledger 2 from something that is not among the recorded frames."""
NOT_SUPPORTED = 404
ROUND_2 = bytes.fromhex("0000001a020300000a0b676f6c64656e2d617574681207726f756e642d32")


def stored(file, number):
    """The bytes behind the ids of the `number`th add in a recorded case."""
    adds = [f["decoded"] for f in golden.load(file)["frames"] if f["direction"] == "client->bookie"]
    return bytes.fromhex([add["entry_hex"] for add in adds if add["opName"] == "ADD"][number])[16:]


def is_version_3(frame):
    return frame[4] == wire.VERSION_3_TAG


def is_auth(frame):
    return frame[5] == wire.Op.AUTH if not is_version_3(frame) else b"golden-auth" in frame


class Replayer:
    """Sends captured frames where Java's client sent them and gathers what comes back."""

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
            if is_version_3(data) and not is_auth(data):
                continue
            ours.setdefault(key, []).append(answer)
            javas.setdefault(key, []).append(data)
            if after_answer is not None:
                await after_answer(sum(map(len, ours.values())))
        return {key: sorted(answers) for key, answers in ours.items()}, {k: sorted(a) for k, a in javas.items()}

    @staticmethod
    def closed_by_client(frames, closing):
        """Connections whose client closed before their bookie did."""
        before = frames[: frames.index(closing)]
        return {(f["bookie"], f["conn"]) for f in before if f.get("closed") and f["direction"] == "client->bookie"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_answers_are_java_bookies_answers(variant, tmp_path):
    async def main():
        async with contextlib.AsyncExitStack() as stack:
            replayer = Replayer(stack, tmp_path)

            async def set_limbo(answers):
                if answers == 1:
                    ledgers = (await replayer.bookie("bookie-0")).bookie.turns.ledgers
                    state = ledgers.get(7100 + int(variant))
                    assert state.record is not None
                    state.record = replace(state.record, limbo=True)

            for case in (*(f"v2-{name}" for name in CASES), *(f"raw-{name}" for name in RAW)):
                frames = golden.load(f"wire/{case}-{variant}.json")["frames"]
                if (case, variant) == KNOWN_BEFORE:
                    state = (await replayer.bookie("bookie-0")).bookie.turns.ledgers.get(2)
                    state.record = LedgerRecord(master_key(b""))
                ours, javas = await replayer.play(frames, set_limbo if case == "v2-limbo" else None)
                assert ours == javas, case
            if f"wire/v2-read-only-{variant}.json" in READ_ONLY:
                (await replayer.bookie("bookie-0")).bookie.turns.read_only = True
                ours, javas = await replayer.play(golden.load(f"wire/v2-read-only-{variant}.json")["frames"])
                assert ours == javas, "v2-read-only"

    run(main())


@pytest.mark.parametrize("file", golden.files("wire/raw-v3-write-lac-no-ledger-*.json"))
def test_unsupported_version_3_operations_are_bad_requests_with_their_own_header(file, tmp_path):
    from bookie.pb import BookkeeperProtocol_pb2 as pb

    requests = [
        bytes.fromhex(frame["hex"])
        for frame in golden.load(file)["frames"]
        if not frame.get("closed")
        and frame["direction"] == "client->bookie"
        and b"golden-auth" not in bytes.fromhex(frame["hex"])
    ]

    async def main():
        async with serving(tmp_path / "bookie") as local:
            reader, writer = await asyncio.open_connection(*local.address)
            answers = []
            for request in requests:
                writer.write(request)
                size = int.from_bytes(await reader.readexactly(4), "big")
                answers.append(pb.Response.FromString(await reader.readexactly(size)))
            writer.close()
            return answers

    answers = run(main())
    assert [answer.header for answer in answers] == [pb.Request.FromString(request[4:]).header for request in requests]
    infos = [answer for answer in answers if answer.header.operation == pb.GET_BOOKIE_INFO]
    assert {answer.status for answer in answers if answer not in infos} == {NOT_SUPPORTED}
    for answer in infos:
        info = answer.getBookieInfoResponse
        assert (answer.status, info.status, 0 < info.freeDiskSpace < info.totalDiskCapacity) == (pb.EOK, pb.EOK, True)


@pytest.mark.parametrize("file", golden.files("wire/v2-add-raw-sorted-storage-*.json"))
def test_an_entry_added_twice_is_read_as_added_last_where_javas_other_storage_keeps_the_first(file, tmp_path):
    async def main():
        async with contextlib.AsyncExitStack() as stack:
            frames = golden.load(file)["frames"]
            replayer = Replayer(stack, tmp_path)
            reader, writer = await replayer.connection(frames[0])
            writer.write(ROUND_2)
            await reader.readexactly(30)
            return await replayer.play(frames)

    ours, javas = run(main())
    first, last = stored(file, 0), stored(file, 2)
    for key, answers in javas.items():
        kept = [answer.replace(first, last) for answer in answers]
        assert sorted(ours[key]) == sorted(kept)
