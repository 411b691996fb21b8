"""What a read brought, as runs to dispatch."""

from mledger.broker.facts import EntryFacts
from mledger.broker.topics.subscriptions.entry_runs import dispatch_runs
from mledger.ledgers.entries.entry import PayloadRun
from mledger.metastore.records.position import Position


def read_facts(payload: bytes) -> EntryFacts | None:
    return None if payload == b"marker" else EntryFacts(3, len(payload))


def test_a_run_of_messages_stays_whole_and_is_not_copied():
    payloads = [b"a", b"b"]
    found, unwanted = dispatch_runs([PayloadRun(5, 7, payloads)], read_facts)
    assert [(run.facts.ledger_id, run.facts.first_entry, run.payloads) for run in found] == [(5, 7, payloads)]
    assert found[0].payloads is payloads
    assert unwanted == []


def test_a_marker_divides_a_run():
    found, unwanted = dispatch_runs([PayloadRun(5, 7, [b"a", b"marker", b"b", b"c"])], read_facts)
    assert [(run.facts.first_entry, list(run.payloads)) for run in found] == [(7, [b"a"]), (9, [b"b", b"c"])]
    assert unwanted == [Position(5, 8)]


def test_a_partly_acknowledged_batch_counts_what_is_left_of_it():
    words = {Position(5, 8): (0b101,)}
    found, _ = dispatch_runs([PayloadRun(5, 7, [b"a", b"b"])], read_facts, words.get)
    assert list(found[0].facts.messages) == [3, 2]
    assert found[0].ack_sets == {8: (0b101,)}


def test_a_batch_of_which_nothing_is_left_goes_to_nobody():
    words = {Position(5, 7): (0,)}
    found, unwanted = dispatch_runs([PayloadRun(5, 7, [b"a", b"b"])], read_facts, words.get)
    assert [run.facts.first_entry for run in found] == [8]
    assert unwanted == []


def test_negative_words_are_64_bits():
    words = {Position(5, 7): (-1,)}
    found, _ = dispatch_runs([PayloadRun(5, 7, [b"a"])], read_facts, words.get)
    assert list(found[0].facts.messages) == [64]
