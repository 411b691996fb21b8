"""What goes wrong in a simulation, and how it ends."""

from collections.abc import Callable

from mledger.metastore.records.paths import cookie_path
from tests.sim.cluster import CAPACITY, Machine, SimCluster
from tests.sim.schedule import Step
from tests.sim.system.metadata import SimStore

_SLOW_S = 0.05
_KIB = 1 << 10
_SLOW_THREADS = 60.0
_SLOW_DISK = 20.0
_RESERVED_S = 0.1


class Faults:
    """Brings about the faults of a schedule; `stop` ends all of them."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster, self._world = cluster, cluster.world
        self._undo: list[Callable[[], None]] = []
        self._stopped = False
        self._of_bookies: dict[str, Callable[[Machine, Step], None]] = {
            "kill": self._kill,
            "power loss": self._kill,
            "kill at disk change": self._kill_at_change,
            "power loss at disk change": self._kill_at_change,
            "freeze": self._freeze,
            "isolate": self._isolate,
            "cut": self._cut,
            "slow": self._slow,
            "sync fails": self._fail_syncs,
            "disk full": self._fill,
            "bad file": self._spoil,
            "journal unmounted": self._unmount,
            "batch fails": self._fail_batch,
            "slow threads": self._slow_threads,
            "slow disk": self._slow_disk,
            "kill after move": self._kill_after_move,
            "freeze for good": self._freeze_for_good,
            "lost disk": self._lose_disk,
            "deaf": self._cut_one_way,
            "mute": self._cut_one_way,
            "session expires": lambda machine, _: self._expire(machine.host),
            "metadata away": lambda machine, step: self._away(machine.host, step.seconds),
        }
        self._of_metadata: dict[str, Callable[[Step], None]] = {
            "lag": self._lag,
            "lose before": self._lose,
            "lose after": self._lose,
            "part": self._part,
            "lose after, away": self._lose_and_stay_away,
            "client session expires": lambda step: self._expire(step.who),
            "client away": lambda step: self._away(step.who, step.seconds),
        }

    def begin(self, step: Step) -> None:
        """Bring about one fault."""
        if self._stopped:
            return
        self._cluster.note(step.who, f"fault: {step.what} {step.number} {step.seconds:.3f}")
        machine = self._cluster.machines.get(step.who)
        if machine is not None:
            self._of_bookies[step.what](machine, step)
        else:
            self._of_metadata[step.what](step)

    def stop(self) -> None:
        """End all faults: everything works again, soon."""
        self._stopped = self._cluster.quiet = True
        for undo in self._undo:
            undo()
        self._world.network.heal_all()
        self._world.metadata.blocked.clear()
        self._world.metadata.catch_up()
        for machine in self._cluster.machines.values():
            machine.disk.fuse, machine.disk.failing_syncs, machine.disk.failing_batches = None, 0, 0
            machine.moves_left = 0
            machine.start_at = 0.0
            machine.start()
        self._cluster.note("world", "faults stop")

    def _later(self, seconds: float, undo: Callable[[], object]) -> None:
        """Undo something after a time, or when faults stop."""
        done = False

        def once() -> None:
            nonlocal done
            if not done:
                done = True
                undo()

        self._undo.append(once)
        self._world.loop.later_as(self._world.loop.world, seconds, once)

    # Of bookies

    @staticmethod
    def _kill(machine: Machine, step: Step) -> None:
        machine.end(power=step.what == "power loss", away_s=step.seconds)

    def _kill_at_change(self, machine: Machine, step: Step) -> None:
        machine.disk.fuse = step.number
        machine.disk.on_fuse = lambda: machine.end(power=step.what.startswith("power"), away_s=step.seconds)

    def _freeze(self, machine: Machine, step: Step) -> None:
        process = machine.process
        if process is not None:
            self._world.loop.freeze(process)
            self._later(step.seconds, lambda: self._world.loop.thaw(process))

    def _isolate(self, machine: Machine, step: Step) -> None:
        others = [*self._cluster.machines, *self._clients()]
        for other in others:
            self._world.network.block(machine.host, other)
        self._later(step.seconds, lambda: [self._world.network.heal(machine.host, other) for other in others])

    def _cut(self, machine: Machine, _: Step) -> None:
        for other in self._clients():
            self._world.network.cut(machine.host, other)

    def _cut_one_way(self, machine: Machine, step: Step) -> None:
        """Clients' requests do not arrive at a bookie, or its answers do not arrive."""
        network, host = self._world.network, machine.host
        ways = [(name, host) if step.what == "deaf" else (host, name) for name in self._clients()]
        for way in ways:
            network.block_way(*way)
        self._later(step.seconds, lambda: [network.heal_way(*way) for way in ways])

    def _lose_disk(self, machine: Machine, step: Step) -> None:
        """A bookie's disk is replaced with an empty one, and its cookie is deleted, as an operator does."""
        machine.end(power=False, away_s=step.seconds)
        machine.disk.wipe()
        machine.had_reserve = machine.kept_reserve = False
        self._cluster.knowledge.on_disk.pop(machine.host, None)
        self._world.metadata.delete(cookie_path(machine.host))

    def _slow(self, machine: Machine, step: Step) -> None:
        self._world.network.latency_s[machine.host] = _SLOW_S
        self._later(step.seconds, lambda: self._world.network.latency_s.pop(machine.host, None))

    @staticmethod
    def _fail_syncs(machine: Machine, step: Step) -> None:
        machine.disk.failing_syncs = 1 + step.number % 2

    @staticmethod
    def _fail_batch(machine: Machine, _: Step) -> None:
        machine.disk.failing_batches = 1

    def _slow_threads(self, machine: Machine, step: Step) -> None:
        process = machine.process
        if process is not None:
            process.threads_slow = _SLOW_THREADS
            self._later(step.seconds, lambda: setattr(process, "threads_slow", 1.0))

    def _slow_disk(self, machine: Machine, step: Step) -> None:
        process = machine.process
        if process is not None:
            process.disk_slow = _SLOW_DISK
            self._later(step.seconds, lambda: setattr(process, "disk_slow", 1.0))

    @staticmethod
    def _kill_after_move(machine: Machine, step: Step) -> None:
        machine.moves_left = step.number

    def _freeze_for_good(self, machine: Machine, _: Step) -> None:
        if machine.process is not None and not any(each.gone for each in self._cluster.machines.values()):
            machine.gone = True
            self._world.loop.freeze(machine.process)

    def _fill(self, machine: Machine, step: Step) -> None:
        ran_s = self._world.loop.now - machine.started_at if machine.serves else 0.0
        machine.had_reserve = ran_s > _RESERVED_S and machine.disk.capacity == CAPACITY
        machine.kept_reserve = machine.has_reserve
        machine.disk.capacity = machine.disk.used + step.number * _KIB
        self._later(step.seconds, lambda: setattr(machine.disk, "capacity", CAPACITY))

    def _spoil(self, machine: Machine, step: Step) -> None:
        files = sorted(path for path in machine.disk.names if path.endswith(".journal") and "/0" in path)
        if files:
            bad = machine.disk.names[files[step.number % len(files)]]
            bad.bad = True
            self._later(step.seconds, lambda: setattr(bad, "bad", False))

    def _unmount(self, machine: Machine, step: Step) -> None:
        machine.end(power=False, away_s=0.05)
        hidden = machine.disk.unmount(f"/{machine.host}/data/journal")

        def mount() -> None:
            machine.end(power=False, away_s=0.0)
            machine.disk.mount(hidden)

        self._later(max(step.seconds, 0.1), mount)

    def _part(self, step: Step) -> None:
        """Block a client's ways to the bookies whose bits `number` has."""
        hosts = [host for bit, host in enumerate(self._cluster.machines) if step.number >> bit & 1]
        for host in hosts:
            self._world.network.block(step.who, host)
        self._later(step.seconds, lambda: [self._world.network.heal(step.who, host) for host in hosts])

    # Of metadata servers, and of sessions with them

    def _lag(self, step: Step) -> None:
        metadata = self._world.metadata
        server = metadata.servers[step.number % len(metadata.servers)]
        server.stopped = True

        def follow() -> None:
            server.stopped = False
            server.catch_up(len(metadata.log))

        self._later(step.seconds, follow)

    def _lose(self, step: Step) -> None:
        for store in self._stores(step.who):
            store.lose, store.lose_s = step.what.removeprefix("lose "), None

    def _lose_and_stay_away(self, step: Step) -> None:
        for store in self._stores(step.who):
            store.lose, store.lose_s = "after", step.seconds

    def _expire(self, name: str) -> None:
        for store in self._stores(name):
            store.expire()

    def _away(self, name: str, seconds: float) -> None:
        metadata = self._world.metadata
        metadata.blocked.add(name)
        for store in self._stores(name):
            store.disconnect(seconds)
        self._later(seconds, lambda: metadata.blocked.discard(name))

    def _stores(self, name: str) -> list[SimStore]:
        return [store for store in self._world.metadata.sessions.values() if store.process.name == name]

    def _clients(self) -> list[str]:
        return sorted({each.process.name for each in self._world.metadata.sessions.values()} - {"world"})
