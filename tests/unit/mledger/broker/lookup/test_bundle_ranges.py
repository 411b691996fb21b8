"""Bundles of a namespace: every hash is in exactly one, as Pulsar's NamespaceBundleFactory has it."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.lookup.bundle_ranges import (
    LAST_HASH,
    ONE_BUNDLE,
    bundle_name,
    decode_boundaries,
    plan_boundaries,
    plan_bundle,
    plan_namespace,
    topic_hash,
)
from mledger.ledgers.bundles import has_topic
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.store import Node, Stat

TOPIC = TopicName.parse("persistent://public/default/t")  # the CRC-32 of its name is 0x823cd929
PATH = "/admin/policies/public/default"


def policies(boundaries):
    bundles = None if boundaries is None else {"boundaries": boundaries, "numBundles": len(boundaries) - 1}
    return Node(json.dumps({"bundles": bundles}).encode(), Stat(0, 0, 0, 0, 0))


def test_four_bundles_have_pulsars_boundaries():
    assert [f"0x{each:08x}" for each in plan_boundaries(4)] == [
        "0x00000000",
        "0x40000000",
        "0x80000000",
        "0xc0000000",
        "0xffffffff",
    ]


def test_a_topic_is_in_the_bundle_of_its_names_crc():
    assert topic_hash(TOPIC) == 0x823CD929
    assert plan_bundle(TOPIC, plan_boundaries(4)) == "0x80000000_0xc0000000"
    assert plan_bundle(TOPIC, (0, 0x823CD929, LAST_HASH)) == "0x823cd929_0xffffffff"
    assert plan_bundle(TOPIC, (0, 0x823CD92A, LAST_HASH)) == "0x00000000_0x823cd92a"


@given(st.integers(1, 300), st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1))
def test_a_topic_is_in_one_bundle_of_an_even_split(bundles, name):
    topic, boundaries = TopicName.parse(f"persistent://tenant/ns/{name}"), plan_boundaries(bundles)
    names = [bundle_name(*each) for each in pairwise(boundaries)]
    assert len(names) == bundles
    assert [each for each in names if has_topic(each, topic)] == [plan_bundle(topic, boundaries)]


@given(st.sets(st.integers(1, LAST_HASH - 1), max_size=20), st.integers(0, 1000))
def test_a_topic_is_in_one_bundle_of_any_split(inner, number):
    topic, boundaries = TopicName.parse(f"tenant/ns/{number}"), (0, *sorted(inner), LAST_HASH)
    names = [bundle_name(*each) for each in pairwise(boundaries)]
    assert [each for each in names if has_topic(each, topic)] == [plan_bundle(topic, boundaries)]
    assert decode_boundaries(policies([f"0x{each:08x}" for each in boundaries]).data, PATH) == boundaries


def test_local_policies_win_over_those_the_namespace_was_created_with():
    halves, whole = policies(["0x00000000", "0x80000000", "0xffffffff"]), policies(["0x00000000", "0xffffffff"])
    assert plan_namespace(halves, whole, PATH, 4) == (0, 0x80000000, LAST_HASH)
    assert plan_namespace(None, halves, PATH, 4) == (0, 0x80000000, LAST_HASH)
    assert plan_namespace(None, None, PATH, 4) == plan_boundaries(4)


def test_policies_that_name_no_bundles_mean_one():
    assert plan_namespace(None, policies(None), PATH, 4) == ONE_BUNDLE


@pytest.mark.parametrize(
    "boundaries",
    [
        [],
        ["0x00000000"],
        ["0x00000001", "0xffffffff"],
        ["0x00000000", "0xfffffffe"],
        ["0x00000000", "0x80000000", "0x40000000", "0xffffffff"],
        ["0x00000000", "0x80000000", "0x80000000", "0xffffffff"],
        ["0x00000000", "later"],
        [None, 7],
    ],
)
def test_bundles_that_do_not_cover_each_hash_once_are_refused(boundaries):
    with pytest.raises(RecordError, match=PATH):
        decode_boundaries(json.dumps({"bundles": {"boundaries": boundaries, "numBundles": 1}}).encode(), PATH)


@pytest.mark.parametrize("data", [b"\xff", b"7", b'{"bundles": 7}', b'{"bundles": {"numBundles": 4}}'])
def test_policies_that_do_not_parse_are_refused(data):
    with pytest.raises(RecordError, match=PATH):
        decode_boundaries(data, PATH)


def test_a_namespace_has_at_least_one_bundle():
    with pytest.raises(ValueError, match="not 0"):
        plan_boundaries(0)
