"""Patterns of topics: what they match, what is refused, and that no pattern takes long."""

import re

import pytest

from mledger.broker.lookup.topics_pattern import TopicsPattern, UnsupportedPattern

NAMES = ["a", "b", "ab", "aab", "abc", "a.b", "a-1", "a-12", "A", "x_y", "a+b", "aaa", "{2}", "]", "a b"]


@pytest.mark.parametrize(
    "pattern",
    [
        ".*",
        "a.*",
        "a|b",
        "(a|ab)(c|)",
        "(?:a+)b?",
        "a{2}b",
        "a{1,}",
        "a{1,2}b?",
        "[ab]+",
        "[^a]",
        "[a-c]*",
        "[\\w.-]+",
        "[]a]+",
        "a\\.b",
        "a\\+b",
        "a-\\d+",
        "\\w+",
        "a\\sb",
        "\\W*",
        "[{2}]+",
        "a.??b",
        "",
    ],
)
def test_a_pattern_matches_what_python_says(pattern):
    found = TopicsPattern(f"public/default/(?:{pattern})")
    topics = [f"persistent://public/default/{name}" for name in NAMES]
    assert found.of(topics) == [topic for topic, name in zip(topics, NAMES, strict=True) if re.fullmatch(pattern, name)]


@pytest.mark.parametrize(
    "pattern", ["public/default/x", "^public/default/x$", "^persistent://public/default/x", "\\Qpublic/default/x\\E"]
)
def test_the_domain_and_anchors_do_not_matter(pattern):
    assert TopicsPattern(pattern).matches("persistent://public/default/x")
    assert not TopicsPattern(pattern).matches("persistent://public/default/xx")


def test_a_partition_matches_by_the_name_of_its_topic():
    assert TopicsPattern("public/default/orders").matches("persistent://public/default/orders-partition-3")


def test_topics_that_are_not_stored_match_by_their_names_too():
    pattern, live = TopicsPattern("non-persistent://public/default/orders"), "non-persistent://public/default/"
    assert pattern.of([f"{live}orders", f"{live}orders-partition-3", f"{live}other"]) == [
        f"{live}orders",
        f"{live}orders-partition-3",
    ]


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a(?!b)",
        "*",
        "a**",
        "[a",
        "a\\",
        "\\bx",
        "\\1",
        "a{300}",
        "(a{99}){99}",
        "x://y",
        "[b-a]",
        "[[:alpha:]]",
    ],
)
def test_what_is_not_supported_is_refused(pattern):
    with pytest.raises(UnsupportedPattern):
        TopicsPattern(pattern)


def test_a_hostile_pattern_takes_few_steps():
    pattern = TopicsPattern("public/default/(a*a*)*(a|aa)*[^a]")
    assert not pattern.matches("persistent://public/default/" + "a" * 200)
    assert len(pattern._steps) < 300
