"""How requests and replies pass between the loop and kazoo's threads."""

import asyncio
import threading

from kazoo.protocol.serialization import Create, Exists
from kazoo.security import OPEN_ACL_UNSAFE

from mledger.metastore.zookeeper.connection import Inbox, Withdrawable
from tests.support.aio import run

CREATE = Create("/node", b"data", OPEN_ACL_UNSAFE, 0)


def test_queued_requests_cross_to_the_loop_in_one_batch_in_order():
    async def main():
        batches = []
        inbox = Inbox(batches.append)
        thread = threading.Thread(target=lambda: [inbox.put(number) for number in range(1000)])
        thread.start()
        thread.join()
        assert batches == []
        await asyncio.sleep(0)
        assert batches == [list(range(1000))]
        inbox.put("next")
        await asyncio.sleep(0)
        assert batches[1:] == [["next"]]

    run(main())


def test_replies_after_the_end_of_the_loop_do_no_harm():
    async def main():
        return Inbox(list)

    run(main()).put("late")


def test_a_write_is_sent_unchanged():
    write = Withdrawable(CREATE, bytes(CREATE.serialize()))
    assert (write.type, write.serialize()) == (Create.type, bytes(CREATE.serialize()))


def test_a_write_withdrawn_before_it_is_sent_becomes_a_harmless_read():
    write = Withdrawable(CREATE, bytes(CREATE.serialize()))
    write.withdrawn = True
    assert (write.type, write.serialize()) == (Exists.type, bytes(Exists("/", None).serialize()))


def test_a_write_withdrawn_while_it_is_sent_stays_a_write():
    write = Withdrawable(CREATE, bytes(CREATE.serialize()))
    code = write.type
    write.withdrawn = True
    assert (code, write.type, write.serialize()) == (Create.type, Create.type, bytes(CREATE.serialize()))
