"""Groups of bookies in the local policies of a namespace and in the custom metadata of a ledger."""

import pytest

from mledger.metastore.errors import RecordError
from mledger.metastore.records.bookie_affinity import (
    PLACEMENT_KEY,
    BookieAffinityGroup,
    decode_affinity,
    ledger_affinity,
    placement_metadata,
)

PATH = "/admin/local-policies/t/n"
BOTH = BookieAffinityGroup("g1,g2", "g3")
JACKSON = b"""{
  "policyClass" : "org.apache.pulsar.bookie.rackawareness.IsolatedBookieEnsemblePlacementPolicy",
  "properties" : {
    "isolationBookieGroups" : "g1,g2",
    "secondaryIsolationBookieGroups" : "g3"
  }
}"""


@pytest.mark.parametrize(
    ("data", "group"),
    [
        (
            b'{"bookieAffinityGroup":{"bookkeeperAffinityGroupPrimary":"g1,g2","bookkeeperAffinityGroupSecondary":"g3"}}',
            BOTH,
        ),
        (b'{"bookieAffinityGroup":{"bookkeeperAffinityGroupPrimary":"g"}}', BookieAffinityGroup("g", None)),
        (b'{"bookieAffinityGroup":null,"namespaceAntiAffinityGroup":null}', None),
        (b'{"bundles":{}}', None),
        (b"", None),
    ],
)
def test_the_groups_of_a_namespace_are_read(data, group):
    assert decode_affinity(data, PATH) == group


@pytest.mark.parametrize(
    "data",
    [b"{", b"[]", b'{"bookieAffinityGroup":"g"}', b'{"bookieAffinityGroup":{"bookkeeperAffinityGroupPrimary":3}}'],
)
def test_unreadable_local_policies_are_refused_by_their_path(data):
    with pytest.raises(RecordError, match=PATH):
        decode_affinity(data, PATH)


def test_a_ledger_keeps_its_groups_in_the_bytes_of_java():
    assert placement_metadata(BOTH) == (PLACEMENT_KEY, JACKSON)
    assert placement_metadata(BookieAffinityGroup("g"))[1].endswith(b'"isolationBookieGroups" : "g"\n  }\n}')
    assert placement_metadata(BookieAffinityGroup())[1].endswith(b'"properties" : { }\n}')


@pytest.mark.parametrize("group", [BOTH, BookieAffinityGroup("g"), BookieAffinityGroup("", ""), BookieAffinityGroup()])
def test_what_a_ledger_keeps_is_read_again(group):
    assert ledger_affinity([("application", b"pulsar"), placement_metadata(group)]) == group


@pytest.mark.parametrize(
    "data",
    [b"{", b"[]", b"{}", JACKSON.replace(b"Isolated", b"Another"), JACKSON.replace(b'"g3"', b"3")],
    ids=("no JSON", "a list", "no class", "another class", "a number"),
)
def test_what_java_cannot_use_asks_for_nothing(data):
    assert ledger_affinity([(PLACEMENT_KEY, data)]) is None
    assert ledger_affinity([]) is None


def test_names_are_taken_as_they_are():
    group = BookieAffinityGroup("a, b,,c,")
    assert (group.primary_groups, group.secondary_groups) == ({"a", " b", "c"}, frozenset())
