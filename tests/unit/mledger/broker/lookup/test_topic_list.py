"""Lists of topics: their hash."""

from mledger.broker.lookup.topic_list import topics_hash


def test_the_hash_is_javas_whatever_the_order():
    topics = [
        "persistent://public/default/wire-java-2516931525-schema",
        "persistent://public/default/wire-java-2516931525",
    ]
    assert topics_hash(topics) == topics_hash(topics[::-1]) == "5d9007d3"


def test_the_hash_of_no_topics():
    assert topics_hash([]) == "00000000"
