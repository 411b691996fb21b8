"""The targets of faults: the cluster, proxies before its bookies and the owner's ZooKeeper, and the current owner."""

import contextlib
import enum
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from mledger.bookie.errors import BookieUnavailable, NotEnoughBookies, RecoveryUndecided
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from tests.faults.aftermath import ComparedCounts, check_everything
from tests.faults.checker import HistoryBroken, Kind, Violation
from tests.faults.owner import BATCH, OwnerLoad
from tests.faults.recorder import OwnerEnded, OwnerProcess
from tests.faults.rounds import Rounds
from tests.faults.soak.damage import has_entries
from tests.faults.soak.proxy import LinkState, Proxies, Proxy
from tests.faults.soak.world import SoakCluster, wait_serving
from tests.support.aio import run

SETTLED = 2000
RATE = 3000
KEEP_MB = 64
"""Of consumed entries, so that there is much to compare after a round."""
_ATTEMPTS = 100
_CHECK_S = 600.0
_OF_SESSIONS = ("ManagedLedgerFenced", "OwnedElsewhere")
_OF_SILENCE = (
    *("SessionExpired", "StoreUnavailable"),  # of ZooKeeper
    *("NotEnoughBookies", "RecoveryUndecided", "BookieUnavailable", "AddTimedOut"),  # of bookies
)
_SILENT = (StoreUnavailable, NotEnoughBookies, RecoveryUndecided, BookieUnavailable)
_SESSION = "session"


class End(enum.Enum):
    """Why an owner ended by itself."""

    EXPECTED = "the fault"
    STARVED = "a busy machine"
    WRONG = "neither"


def plan_end(error: tuple[str, str] | None, *, may_end: bool) -> End:
    """Why an owner ended with this error, name and text; `may_end`: a fault of sessions ends owners.

    Servers that get no processor time answer no sooner than those that are away, whatever the fault is.
    """
    if error is None:
        return End.WRONG
    name, text = error
    if may_end and (name in _OF_SESSIONS or name in ("SessionExpired", "StoreUnavailable")):
        return End.EXPECTED
    return End.STARVED if name in _OF_SILENCE or (name in _OF_SESSIONS and _SESSION in text) else End.WRONG


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things last, in seconds: sessions of owners and bookies, adds until a bookie is given up, and faults.

    `beyond_s` is longer than every time-out; `a_while_s` is the length of other faults. Within `within_s` a healthy
    cluster must acknowledge entries again. A busy machine may end `most_starved` owners.
    """

    session_s: float
    add_timeout_s: float
    beyond_s: float
    a_while_s: float
    settled: int = SETTLED  # entries acknowledged after a fault before the next one
    within_s: float = 60.0
    most_starved: int = 3


LONG = Pace(session_s=4.0, add_timeout_s=5.0, beyond_s=7.0, a_while_s=2.0)
SHORT = Pace(
    session_s=3.0, add_timeout_s=2.0, beyond_s=4.0, a_while_s=0.6, settled=500, within_s=300.0, most_starved=1000
)


class Stage:
    """One cluster under load. An owner that ends is followed by another."""

    def __init__(self, world: SoakCluster, proxies: Proxies, seed: int, pace: Pace = LONG) -> None:
        self.world, self.proxies, self.pace = world, proxies, pace
        self.rng = random.Random(seed)
        self.rounds = Rounds(self._owner_url(), world.bookies, world.directory, seed)
        self.links = [proxies.before(bookie.address) for bookie in world.bookies]
        addresses = {b.bookie_id: link.address for b, link in zip(world.bookies, self.links, strict=True)}
        self.load = OwnerLoad(
            rate=RATE,
            trim=True,
            keep_mb=KEEP_MB,
            addresses=addresses,
            session_s=pace.session_s,
            add_timeout_s=pace.add_timeout_s,
        )
        self.ended: Counter[str] = Counter()
        self.starved = 0
        self.saw: Counter[str] = Counter()
        self.owner = self._open()

    def _owner_url(self) -> str:
        self.sessions = [self.proxies.before((each.host, each.port)) for each in self.world.zookeeper.servers]
        return "zk://" + ",".join(f"{host}:{port}" for host, port in (proxy.address for proxy in self.sessions))

    def pick(self) -> int:
        """Any bookie except the one with the small disk, which has a fault of its own."""
        return self.rng.randrange(len(self.world.bookies) - self.world.has_small_disk)

    def pick_with_entries(self) -> int:
        """Like that, but one that has written entries lately."""
        until = time.monotonic() + self.pace.within_s
        while time.monotonic() < until:
            found = [n for n in range(len(self.world.bookies)) if has_entries(self.world.bookies[n].directory)]
            if found := [number for number in found if number < len(self.links) - self.world.has_small_disk]:
                return self.rng.choice(found)
            self.hold(0.5)
        raise TimeoutError("no bookie gets any entries")

    def hold(self, seconds: float, *, may_end: bool = False) -> None:
        """Let the load continue for so long. An owner that ends because of it is followed by another, if it may end."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                self.owner.for_seconds(left)
            except OwnerEnded as ended:
                self.replace_ended(ended, may_end=may_end)

    def settle(self, *, of_session: bool = False) -> None:
        """Return when entries are acknowledged again. TimeoutError if they are not for `within_s`.

        After a fault of its session an owner may end when it rolls over: that is waited for.
        """
        entries = self.load.entries_per_ledger + BATCH if of_session else 0
        until = time.monotonic() + self.pace.within_s
        while True:
            try:
                self.owner.acknowledge_more(max(entries, self.pace.settled), within=max(0.0, until - time.monotonic()))
                return
            except OwnerEnded as ended:
                self.replace_ended(ended, may_end=of_session)

    def replace_ended(self, ended: OwnerEnded, *, may_end: bool) -> None:
        """Open the topic again after its owner ended by itself. OwnerEnded if it had no reason to end."""
        self._count_end(self.owner, ended, may_end=may_end)
        self.reopen()

    def _count_end(self, owner: OwnerProcess, ended: OwnerEnded, *, may_end: bool) -> None:
        """Note that an owner ended by itself. OwnerEnded if it had no reason to end."""
        error = owner.owner.ended
        why = plan_end(error, may_end=may_end)
        self.starved += why is End.STARVED
        if error is None or why is End.WRONG or self.starved > self.pace.most_starved:
            raise ended
        self.ended[error[0]] += 1
        owner.close()

    def must_be_fenced(self, before: OwnerProcess) -> None:
        """Wait until an owner that was followed has ended. OwnerEnded if it ended otherwise than by being fenced.

        On a busy machine its session or its bookies may be gone before it finds out that it is fenced.
        """
        try:
            before.until(lambda seen: seen.ended is not None)
        except OwnerEnded:
            if before.owner.ended is None:
                raise
        error = before.owner.ended
        if error is None or error[0] != "ManagedLedgerFenced":
            self._count_end(before, OwnerEnded(f"the owner before was not fenced: {error}"), may_end=False)

    def step_clock(self, ms: int) -> None:
        """Step the owner's clock. One that has just ended by itself is replaced at the next `hold`."""
        with contextlib.suppress(BrokenPipeError):
            self.owner.step_clock(ms)

    def leader(self) -> ZooKeeperServer:
        """ZooKeeper's leader. On a busy machine there may be none for a while: TimeoutError after `within_s`."""
        until = time.monotonic() + self.pace.within_s
        while time.monotonic() < until:
            with contextlib.suppress(StopIteration):
                return self.world.zookeeper.leader
            self.hold(0.2, may_end=True)
        raise TimeoutError(f"ZooKeeper has no leader within {self.pace.within_s:g} s")

    def restart_bookie(self, number: int) -> None:
        """Kill a bookie if it runs, and start it."""
        if self.world.bookies[number].running:
            self.world.bookies[number].kill()
        self.start_bookie(number)

    def start_bookie(self, number: int) -> None:
        """Start a bookie. BookieFailed if it refuses to.

        One that got no session with ZooKeeper in time is started again.
        """
        bookie = self.world.bookies[number]
        bookie.launch()
        again = wait_serving(bookie, self.pace.within_s)
        if again:
            self.saw["a bookie got no session with ZooKeeper and was started again"] += again

    def check(self, *, damaged: bool = False) -> ComparedCounts:
        """Compare everything with what was acknowledged, as `check_everything`, as soon as all servers answer."""
        until = time.monotonic() + self.pace.within_s
        while True:
            work = check_everything(self.rounds.history, self.world.url, config=self.load.config, damaged=damaged)
            try:
                return run(work, timeout=_CHECK_S)
            except _SILENT:
                if time.monotonic() > until:
                    raise
            self.saw["servers that did not answer while everything was compared"] += 1

    def take_over(self) -> OwnerProcess:
        """Open the topic in another process. Returns the previous owner, which nobody has notified."""
        before = self.owner
        before.drain()
        self.owner = self._open(before)
        return before

    def kill_owner(self) -> None:
        """Send SIGKILL to the owner. OwnerEnded if it had ended before without a reason."""
        try:
            self.owner.kill()
        except OwnerEnded as ended:
            self._count_end(self.owner, ended, may_end=False)

    def reopen(self) -> None:
        """The next owner, after the one before has ended."""
        self.owner = self._open()

    @contextlib.contextmanager
    def link(self, proxies: list[Proxy], link: LinkState) -> Iterator[None]:
        """Put links into this state for the block."""
        for proxy in proxies:
            proxy.set(link)
        try:
            yield
        finally:
            for proxy in proxies:
                proxy.set(LinkState.GOOD)

    def close(self) -> None:
        """End the owner."""
        self.owner.close()

    def _open(self, beside: OwnerProcess | None = None) -> OwnerProcess:
        """An owner that has opened the topic. Tries for a while, because ZooKeeper may be without a leader."""
        until = time.monotonic() + self.pace.within_s
        for _ in range(_ATTEMPTS):
            owner = self.rounds.owner(load=self.load, beside=beside)
            try:
                owner.until(lambda seen: seen.opened, within=max(1.0, until - time.monotonic()))
                return owner
            except OwnerEnded as ended:
                error = owner.owner.ended
                if error is None or time.monotonic() > until:
                    raise ended
                self.ended[f"while opening: {error[0]}"] += 1
                owner.close()
            except (TimeoutError, HistoryBroken):
                owner.close()
                raise
        raise HistoryBroken([Violation(Kind.LOST, f"the topic could not be opened: {dict(self.ended)}")])
