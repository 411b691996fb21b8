"""Shadow topics are recognised by a property, refused by name, and found with their source."""

import pytest

from mledger.errors import ShadowTopic
from mledger.ledgers.shadow_topics import SHADOW_SOURCE, refuse_shadow, refuse_shadows, shadow_source, source_record
from mledger.metastore.records.codec import encode_managed_ledger_info
from mledger.metastore.records.paths import managed_ledger_path
from mledger.metastore.records.values import ManagedLedgerInfo
from mledger.metastore.url import open_store
from tests.support.aio import run

SOURCE = "persistent://public/default/source"
NAME = "public/default/persistent/shadow"
SHADOW = ManagedLedgerInfo(properties=((SHADOW_SOURCE, SOURCE),))


def test_only_the_property_makes_a_shadow():
    assert shadow_source(SHADOW) == SOURCE
    assert shadow_source(ManagedLedgerInfo(properties=(("other", SOURCE),))) is None
    refuse_shadow(NAME, ManagedLedgerInfo())


def test_a_shadow_is_refused_with_its_source():
    with pytest.raises(ShadowTopic, match=f"{NAME} is a shadow of {SOURCE}"):
        refuse_shadow(NAME, SHADOW)


def in_store(records, work):
    """The result of `work` with a store that has these records, by managed ledger."""

    async def main():
        async with await open_store("memory:") as store:
            for name, data in records.items():
                await store.create(managed_ledger_path(name), data, parents=True)
            return await work(store)

    return run(main())


def test_one_shadow_among_many_topics_is_refused_and_unreadable_records_are_skipped():
    plain = encode_managed_ledger_info(ManagedLedgerInfo())
    names = {f"{NAME}-{number}": plain for number in range(2)} | {f"{NAME}-bad": b"\xff"}
    in_store(names, lambda store: refuse_shadows(store, [*names, f"{NAME}-missing"]))
    names[NAME] = encode_managed_ledger_info(SHADOW)
    with pytest.raises(ShadowTopic, match=NAME):
        in_store(names, lambda store: refuse_shadows(store, list(names)))


@pytest.mark.parametrize(
    ("shadow", "existing", "found"),
    [
        (NAME, "source", "source"),
        (f"{NAME}-partition-1", "source-partition-1", "source-partition-1"),
        (f"{NAME}-partition-1", "source", "source"),
        (f"{NAME}-partition-1", "source-partition-2", None),
        (NAME, "other", None),
    ],
)
def test_the_source_of_a_partition_is_the_same_partition_of_the_source(shadow, existing, found):
    existing_name = f"public/default/persistent/{existing}"
    result = in_store({existing_name: b""}, lambda store: source_record(store, shadow, SOURCE))
    assert (result and result[0]) == (found and managed_ledger_path(existing_name))


def test_a_source_that_is_no_topic_has_no_record():
    assert in_store({}, lambda store: source_record(store, NAME, "no topic")) is None
