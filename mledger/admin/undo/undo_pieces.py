"""Splits what an undo writes into pieces that each leave a valid state (M11); no I/O.

- If everything fits one request, there is one piece, and the undo is atomic.
- If ledgers have their own metadata store, their records are pieces of their own, before those that may name them.
- Otherwise deleted topics come first, without ledgers. All records but those of topics follow, in pieces that check the
  records of their topics: an owner that opens a topic in between wins. The lists of ledgers come last: while a topic
  lacks cursors, it lists nothing that could be trimmed.
- The owners of topics whose cursors alone are restored are fenced first.
- A topic that was not there before is deleted after its cursors, and its ledgers are recorded for deletion before it.
- Just before the lists, the ledgers to be listed again lose their deletion records. If the undo is interrupted there,
  nothing deletes these ledgers: the same undo lists them, and `topics repair` finds them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mledger.admin.undo.restorations import Restoration, UndoAction, UndoPlan
from mledger.admin.undo.undo_references import is_of_ledgers
from mledger.ledgers.orphans.pending_records import deletion_record, listed, listed_again
from mledger.metastore.batched_store import plan_multis
from mledger.metastore.records.paths import managed_ledger_path, topic_above
from mledger.metastore.store import Check, Create, Delete, Operation, Put

_ORDER = (UndoAction.CREATE, UndoAction.SET)


class Piece(Struct, frozen=True):
    """The changes that one multi makes, if `checks` hold.

    `recorded` are ledgers that a later piece names again, `ahead` those that it unlists, each with its managed ledger.
    """

    changes: tuple[Restoration, ...]
    checks: tuple[Check | Put, ...]
    recorded: tuple[int, ...] = ()
    ahead: tuple[tuple[int, str], ...] = ()

    @property
    def drops(self) -> tuple[tuple[int, str], ...]:
        """The cursor ledgers to delete afterwards, each with its managed ledger."""
        return tuple((each.drops, each.managed_ledger) for each in self.changes if each.drops is not None)

    @property
    def unlists(self) -> tuple[tuple[int, str], ...]:
        """The other ledgers to delete afterwards, each with its managed ledger."""
        return tuple((ledger_id, each.managed_ledger) for each in self.changes for ledger_id in each.unlists)

    @property
    def written_to(self) -> tuple[int, ...]:
        """Those of the ledgers to delete that an owner which was taken over may write to."""
        return (
            *(ledger_id for ledger_id, _ in self.drops),
            *(each.unlists[-1] for each in self.changes if each.unlists),
        )

    @property
    def _to_record(self) -> list[tuple[int, str]]:
        with_changes = [(ledger_id, each.managed_ledger) for each in self.changes for ledger_id in each.to_record]
        return [*self.drops, *with_changes, *self.ahead]

    @property
    def _taken_back(self) -> list[int]:
        return sorted({*self.recorded, *(ledger_id for each in self.changes for ledger_id in each.recorded)})

    def operations(self, cursor_ledgers: Mapping[str, int]) -> list[Operation]:
        """The multi; `cursor_ledgers` are those written before it, by the path of the record that will name them."""
        writes = [each.operation(cursor_ledgers.get(each.path)) for each in self.changes]
        found = sorted((write for write in writes if write is not None), key=lambda write: write.path)
        return [
            *(write for write in found if isinstance(write, Create)),
            *(write for write in found if isinstance(write, Put)),
            *(write for write in reversed(found) if isinstance(write, Delete)),
            *(listed(ledger_id) for ledger_id in cursor_ledgers.values()),
            *(deletion_record(ledger_id, name) for ledger_id, name in self._to_record),
            *(listed_again(ledger_id) for ledger_id in self._taken_back),
            *self.checks,
        ]


def plan_pieces(plan: UndoPlan) -> list[Piece]:
    """The pieces of `plan`, in the order in which to carry them out."""
    pieces = _plan_pieces(plan)
    return [part for piece in pieces for part in _apart(piece)] if plan.two_stores else pieces


def _apart(piece: Piece) -> Iterator[Piece]:
    """The records of ledgers, which are in a store of their own, and then the rest of the piece."""
    of_ledgers = tuple(each for each in piece.changes if is_of_ledgers(each.path))
    if of_ledgers:
        yield Piece(of_ledgers, ())
    others = tuple(each for each in piece.changes if not is_of_ledgers(each.path))
    if others or not piece.changes:
        yield replace(piece, changes=others)


def _plan_pieces(plan: UndoPlan) -> list[Piece]:
    changes = plan.changes
    if not changes:
        return []
    if not plan.in_pieces:
        return [Piece(changes, plan.checks)]
    topics = {managed_ledger_path(name) for name in plan.topics}
    fences = [check for check in plan.checks if isinstance(check, Put)]
    guards = {check.path: check for check in plan.checks if isinstance(check, Check)}
    guards |= {fence.path: Check(fence.path, fence.version + 1) for fence in fences}
    of_topics = [each for each in changes if each.path in topics]
    guards |= {each.path: Check(each.path, _version_meanwhile(each)) for each in of_topics}
    created = [each for each in of_topics if each.action is UndoAction.CREATE]
    return [
        *(Piece((), tuple(fences[part.start : part.stop])) for part in plan_multis([(fence,) for fence in fences])),
        *_cut(map(_begun, created), {}),
        *_cut((each for each in changes if each.path not in topics), guards, plan.topics),
        *_taking_back(of_topics, guards),
        *_recording(of_topics, guards),
        *_cut((_filled(each) for each in of_topics if each.action is not UndoAction.CREATE or _is_filled(each)), {}),
    ]


def _version_meanwhile(topic: Restoration) -> int:
    return 0 if topic.version is None else topic.version


def _begun(topic: Restoration) -> Restoration:
    """The topic as it is first created, before its cursors."""
    return topic if topic.begins_as is None else replace(topic, data=topic.begins_as, recorded=())


def _is_filled(topic: Restoration) -> bool:
    """Whether a topic that is created gets its ledgers in a later write."""
    return topic.begins_as is not None and topic.begins_as != topic.data


def _filled(topic: Restoration) -> Restoration:
    filled = replace(topic, recorded=(), to_record=())
    return replace(filled, action=UndoAction.SET, version=0) if topic.action is UndoAction.CREATE else filled


def _taking_back(topics: Iterable[Restoration], guards: Mapping[str, Check]) -> Iterator[Piece]:
    """Pieces that remove the deletion records of ledgers to be listed again, if the topic has not changed."""
    for topic in topics:
        for part in plan_multis([(listed_again(ledger_id),) for ledger_id in topic.recorded]):
            yield Piece((), (guards[topic.path],), topic.recorded[part.start : part.stop])


def _recording(topics: Iterable[Restoration], guards: Mapping[str, Check]) -> Iterator[Piece]:
    """Pieces that record the ledgers of topics to delete for deletion, if the topic has not changed."""
    for topic in topics:
        ahead = [(ledger_id, topic.managed_ledger) for ledger_id in topic.to_record]
        for part in plan_multis([(deletion_record(*each),) for each in ahead]):
            yield Piece((), (guards[topic.path],), ahead=tuple(ahead[part.start : part.stop]))


def _cut(changes: Iterable[Restoration], guards: dict[str, Check], topics: Sequence[str] = ()) -> list[Piece]:
    """`changes` in pieces, creations first, deletions last and from below, each with the checks of its topics."""
    by_path = sorted(changes, key=lambda each: each.path)
    ordered = sorted((each for each in by_path if each.action in _ORDER), key=lambda each: _ORDER.index(each.action))
    ordered += (each for each in reversed(by_path) if each.action is UndoAction.DELETE)
    sized = [Piece((each,), ()).operations({each.path: 0} if each.cursor_ledger else {}) for each in ordered]
    # topics that the undo file does not name as such may be written here, before or after their cursors
    meanwhile = guards | {each.path: Check(each.path, each.version) for each in ordered if each.version is not None}
    pieces = []
    for part in plan_multis(sized):
        inside = tuple(ordered[part.start : part.stop])
        # a record that is not a cursor's belongs to the only topic, or only its own version is checked
        names = {each.managed_ledger or (topics[0] if len(topics) == 1 else "") for each in inside} - {""}
        paths = {managed_ledger_path(name) for name in names} | {topic_above(each.path) for each in inside}
        paths -= {each.path for each in inside}
        pieces.append(Piece(inside, tuple(meanwhile[path] for path in sorted(paths) if path in meanwhile)))
        for each in inside:
            if each.action is not UndoAction.DELETE:
                meanwhile[each.path] = Check(each.path, 0 if each.version is None else each.version + 1)
    return pieces
