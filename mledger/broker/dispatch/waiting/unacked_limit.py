"""The limit of unacknowledged messages of a whole broker (D1)."""

from typing import Protocol


class UnackedCount(Protocol):
    """A dispatcher, as the broker's limit sees it."""

    unacked: int


class BrokerUnackedLimit:
    """Holds back the subscriptions with the most unacknowledged messages while the broker has too many (D1).

    The broker is over its limit from `most` unacknowledged messages on until half of them are left. Meanwhile a
    subscription with its share or more reads nothing new until it is at half of that share.
    """

    def __init__(self, most: int, share: float = 0.16) -> None:
        """`maxUnackedMessagesPerBroker` (0 is no limit), `maxUnackedMessagesPerSubscriptionOnBrokerBlocked`."""
        self._most = most
        self._share = int(most * share)
        self._held: set[UnackedCount] = set()
        self.unacked = 0
        self.blocked = False

    def add(self, messages: int) -> None:
        """So many messages were sent, or with a negative number acknowledged or taken back."""
        self.unacked += messages
        if self._most <= 0:
            return
        if not self.blocked and self.unacked >= self._most:
            self.blocked = True
        elif self.blocked and self.unacked <= self._most // 2:
            self.blocked = False
            self._held.clear()

    def holds(self, dispatcher: UnackedCount) -> bool:
        """Whether a dispatcher reads nothing new for now."""
        if not self.blocked:
            return False
        if dispatcher in self._held:
            if dispatcher.unacked <= self._share // 2:
                self._held.discard(dispatcher)
                return False
            return True
        if dispatcher.unacked < max(1, self._share):
            return False
        self._held.add(dispatcher)
        return True

    def forget(self, dispatcher: UnackedCount) -> None:
        """A dispatcher has no consumers any more."""
        self._held.discard(dispatcher)
