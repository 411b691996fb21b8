"""Topics are listed by the paths of their records."""

from mledger.admin.topic_names import list_topics, managed_ledger_paths
from mledger.metastore.records.paths import MANAGED_LEDGERS
from mledger.metastore.url import open_store
from tests.support.aio import run

NAMES = (
    "public/default/persistent/b",
    "public/default/persistent/a",
    "public/default/persistent/a/a-cursor",
    "public/other/persistent/c",
    "old/cluster/namespace/persistent/d",
    "tenant/default/persistent/%GG",
    "tenant/empty/persistent",
)


def listed(prefix=""):
    """The topics with this prefix, and the paths of managed ledgers, in a store that has the nodes NAMES."""

    async def main():
        async with await open_store("memory:") as store:
            for name in NAMES:
                await store.create(f"{MANAGED_LEDGERS}/{name}", parents=True)
            paths = [path async for page in managed_ledger_paths(store, prefix) for path in page]
            return [topic.managed_ledger_name for topic in await list_topics(store, prefix)], paths

    return run(main())


def test_topics_of_both_name_forms_are_listed_in_order_without_cursors():
    topics, _ = listed()
    assert topics == [
        "old/cluster/namespace/persistent/d",
        "public/default/persistent/a",
        "public/default/persistent/b",
        "public/other/persistent/c",
    ]


def test_a_prefix_selects_a_tenant_or_a_namespace():
    assert listed("public")[0] == [name for name in listed()[0] if name.startswith("public/")]
    assert listed("public/other")[0] == ["public/other/persistent/c"]


def test_an_unknown_prefix_selects_nothing():
    assert listed("nobody/nothing") == ([], [])


def test_a_name_that_no_topic_can_have_is_only_among_the_paths():
    topics, paths = listed("tenant")
    assert (topics, paths) == ([], [f"{MANAGED_LEDGERS}/tenant/default/persistent/%GG"])
