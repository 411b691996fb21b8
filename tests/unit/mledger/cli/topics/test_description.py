"""The retention in force and its origin, as shown with a topic (M10)."""

from mledger.admin.inspect import TopicInspection
from mledger.cli.topics.description import described_topic
from mledger.errors import PoliciesUnavailable
from mledger.ledgers.retention import RetentionInForce, RetentionOrigin
from mledger.metastore.records.position import Position

FOUND = TopicInspection("t/n/persistent/x", 1, (), 0, 0, Position(1, -1), None, (), (), None, ())


def shown(retention) -> dict:
    facts = {column.key: value for column, value in described_topic("x", FOUND, retention).fields}
    return {name: facts[name] for name in ("retention_ms", "retention_mb", "retention_origin", "warnings")}


def test_a_policy_is_shown_with_its_origin():
    assert shown(RetentionInForce(60_000, -1, RetentionOrigin.TOPIC)) == {
        "retention_ms": 60_000,
        "retention_mb": -1,
        "retention_origin": "the topic's policy",
        "warnings": (),
    }


def test_a_broker_s_default_is_in_no_node_and_is_not_guessed():
    found = shown(RetentionInForce(0, 0, RetentionOrigin.DEFAULT))
    assert (found["retention_ms"], found["retention_mb"], found["retention_origin"]) == (
        None,
        None,
        "the broker's default",
    )


def test_a_policy_with_one_limit_of_zero_is_explained():
    (said,) = shown(RetentionInForce(60_000, 0, RetentionOrigin.NAMESPACE))["warnings"]
    assert "a size of 0 keeps nothing" in said


def test_unreadable_policies_are_reported_and_not_guessed():
    found = shown(PoliciesUnavailable("the policies of x cannot be read"))
    assert found["retention_origin"] is None
    assert found["warnings"] == ("the policies of x cannot be read",)
