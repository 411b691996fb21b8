"""Which properties a topic can be given."""

import pytest

from mledger.errors import InvalidProperties
from mledger.ledgers.topic_properties import check_topic_properties


def test_text_is_a_property():
    check_topic_properties({"": "", "owner": "alice"})


@pytest.mark.parametrize("properties", [{"a": None}, {"a": 1}, {1: "a"}, {b"a": "b"}])
def test_what_is_not_text_is_refused(properties):
    with pytest.raises(InvalidProperties, match="give text keys and values"):
        check_topic_properties(properties)


def test_the_property_of_a_shadow_is_refused():
    with pytest.raises(InvalidProperties, match=r"PULSAR\.SHADOW_SOURCE would make the topic a shadow"):
        check_topic_properties({"owner": "alice", "PULSAR.SHADOW_SOURCE": "persistent://a/b/c"})
