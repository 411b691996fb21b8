"""Passwords one after the other: what waits, what does not, and what is refused."""

import asyncio
import threading

import pytest

from mledger.broker.admin_rest.http_server import MOST_CONNECTIONS
from mledger.broker.security import password_queue
from mledger.broker.security.errors import AuthenticationBusy, AuthenticationFailed
from mledger.broker.security.password_queue import PasswordQueue
from tests.support.aio import run


class HeldFile:
    """Users whose passwords are their names; a check waits until `go`."""

    def __init__(self):
        self.go = threading.Event()
        self.asked = []
        self.threads = set()

    def verify(self, user, password):
        self.asked.append((user, password))
        self.threads.add(threading.current_thread())
        self.go.wait()
        if user != password:
            raise AuthenticationFailed("wrong")
        return user


def test_a_password_that_was_right_waits_for_no_others(monkeypatch):
    monkeypatch.setattr(password_queue, "MOST_WAITING", 3)

    async def main():
        file = HeldFile()
        queue = PasswordQueue(file)
        file.go.set()
        assert await queue.check("ann", "ann") == "ann"
        file.go.clear()
        wrong = [asyncio.ensure_future(queue.check("ann", f"wrong {each}")) for each in range(3)]
        await asyncio.sleep(0)
        assert await queue.check("ann", "ann") == "ann"
        with pytest.raises(AuthenticationBusy, match="too many passwords are being checked"):
            await queue.check("bob", "bob")
        file.go.set()
        answers = await asyncio.gather(*wrong, return_exceptions=True)
        assert [type(each) for each in answers] == [AuthenticationFailed] * 3
        assert await queue.check("bob", "bob") == "bob"
        assert len(file.threads) == 1

    run(main())


def test_those_who_send_wrong_passwords_wait_too_so_that_a_first_right_one_is_only_delayed():
    """If they were refused they would come again at once, and take each place that becomes free."""

    async def main():
        file = HeldFile()
        queue = PasswordQueue(file)
        wrong = [asyncio.ensure_future(queue.check("ann", f"wrong {each}")) for each in range(300)]
        await asyncio.sleep(0)
        right = asyncio.ensure_future(queue.check("bob", "bob"))
        await asyncio.sleep(0)
        file.go.set()
        assert await right == "bob"
        await asyncio.wait(wrong)
        assert {type(each.exception()) for each in wrong} == {AuthenticationFailed}

    run(main())


def test_requests_that_wait_leave_http_connections_and_all_other_clients_their_places():
    async def main():
        file = HeldFile()
        queue = PasswordQueue(file)
        asked = [asyncio.ensure_future(queue.check("ann", "wrong", http=True)) for _ in range(MOST_CONNECTIONS)]
        await asyncio.sleep(0)
        assert sum(each.done() for each in asked) == MOST_CONNECTIONS // 2
        other = asyncio.ensure_future(queue.check("bob", "bob"))
        await asyncio.sleep(0)
        file.go.set()
        assert await other == "bob"
        await asyncio.wait(asked)
        assert {type(each.exception()) for each in asked} == {AuthenticationBusy, AuthenticationFailed}

    run(main())


def test_one_users_password_is_not_anothers():
    async def main():
        file = HeldFile()
        file.go.set()
        queue = PasswordQueue(file)
        assert await queue.check("ann", "ann") == "ann"
        for user, password in (("bob", "ann"), ("ann", "")):
            with pytest.raises(AuthenticationFailed):
                await queue.check(user, password)

    run(main())


def test_a_client_that_goes_away_leaves_its_place():
    async def main():
        file = HeldFile()
        queue = PasswordQueue(file)
        waiting = asyncio.ensure_future(queue.check("ann", "ann"))
        gone = asyncio.ensure_future(queue.check("bob", "bob"))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        file.go.set()
        assert await waiting == "ann"
        assert file.asked == [("ann", "ann")]

    run(main())
