"""The receive buffers of all connections together take no more than the room that there is."""

import asyncio

from mledger.bookie.server.serving import receive_room
from mledger.bookie.server.serving.receive_buffer import BUFFER, FIRST_BUFFER, ReceiveBuffer
from mledger.bookie.server.serving.receive_room import ReceiveRoom
from tests.support.aio import run

ROOM = 16 * BUFFER
FRAME = 5 * BUFFER


class Sender:
    """A connection with a client that sends a frame of FRAME bytes."""

    def __init__(self, room):
        self.buffer = ReceiveBuffer(room, self)
        self.room, self.taken, self.ended = room, 0, asyncio.Event()

    @property
    def awaited_frame(self):
        return self.buffer.frame_at if self.buffer else -1

    def make_room(self):
        self.buffer.compact()

    def abort(self):
        self.buffer.end()
        self.ended.set()

    def send(self, count):
        """Receive up to `count` bytes of the frame, as far as the buffer takes them; return how many."""
        buffer, sent = self.buffer, 0
        buffer.next_frame = FRAME
        while sent < count and not buffer.full:
            part = min(count - sent, len(buffer.room()))
            buffer.received(part)
            sent += part
            if len(buffer) == FRAME:
                buffer.start = buffer.filled
                buffer.next_frame, self.taken = 0, self.taken + 1
            if buffer.full or not buffer:
                buffer.compact()
        return sent


async def until(condition):
    """Let the loop run until a condition holds."""
    while not condition():
        await asyncio.sleep(0)


def test_frames_that_have_begun_take_no_more_than_the_room_together():
    async def main():
        room = ReceiveRoom(ROOM)
        senders = [Sender(room) for _ in range(100)]
        for sender in senders:
            sender.send(FRAME - 1)
        assert sum(len(sender.buffer.data) - FIRST_BUFFER for sender in senders) == room.taken <= ROOM
        assert not any(sender.taken for sender in senders)

    run(main())


def test_frames_that_are_sent_at_once_all_become_whole():
    async def main():
        room = ReceiveRoom(ROOM)
        senders = [Sender(room) for _ in range(100)]
        left = dict.fromkeys(senders, FRAME)

        def all_sent():
            for sender in senders:
                left[sender] -= sender.send(min(left[sender], FIRST_BUFFER))
            return not any(left.values())

        await until(all_sent)
        assert [sender.taken for sender in senders] == [1] * 100
        assert not any(sender.ended.is_set() for sender in senders)

    run(main())


def test_a_client_that_sends_no_more_of_its_frame_keeps_others_waiting_for_a_time_only(monkeypatch):
    monkeypatch.setattr(receive_room, "HOLD_S", 0.0)
    monkeypatch.setattr(receive_room, "_LOOK_S", 0.0)

    async def main():
        room = ReceiveRoom(2 * FRAME)
        silent = [Sender(room) for _ in range(4)]
        for sender in silent:
            sender.send(FRAME - 1)
        late = Sender(room)
        sent = late.send(FRAME)
        assert sent < FRAME
        while not late.taken:
            sent += late.send(FRAME - sent)
            await asyncio.sleep(0)
        assert any(sender.ended.is_set() for sender in silent)

    run(main())


def test_nobody_is_cut_off_while_nobody_waits(monkeypatch):
    monkeypatch.setattr(receive_room, "HOLD_S", 0.0)
    monkeypatch.setattr(receive_room, "_LOOK_S", 0.0)

    async def main():
        room = ReceiveRoom(ROOM)
        slow = Sender(room)
        slow.send(FRAME - 1)
        other = Sender(room)
        other.send(FRAME)
        await asyncio.sleep(0)
        assert not slow.ended.is_set()

    run(main())


def test_an_empty_buffer_gives_its_room_back_while_it_is_scarce():
    async def main():
        room = ReceiveRoom(2 * FRAME)
        idle = Sender(room)
        idle.send(FRAME)
        assert idle.taken == 1
        holder = Sender(room)
        holder.send(FRAME - 1)
        idle.send(FRAME)
        assert len(idle.buffer.data) == FIRST_BUFFER

    run(main())
