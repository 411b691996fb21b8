"""A namespace's retention, as Pulsar 4.2.4 writes its policies."""

import pytest

from metastore.errors import RecordError
from metastore.paths import TopicName
from metastore.policies import Retention, decode_retention, namespace_policies_path

PATH = "/admin/policies/t/n"


def test_the_policies_of_a_topic_are_those_of_its_namespace() -> None:
    assert namespace_policies_path(TopicName("t", "n", "x")) == PATH
    assert namespace_policies_path(TopicName("t", "n", "x", cluster="c")) == "/admin/policies/t/c/n"


@pytest.mark.parametrize(
    ("data", "retention"),
    [
        (
            b'{"retention_policies":{"retentionTimeInMinutes":60,"retentionSizeInMB":-1}}',
            Retention(60, -1),
        ),
        (b'{"retention_policies":{}}', Retention(0, 0)),
        (b'{"retention_policies":null}', None),
        (b'{"deleted":false}', None),
    ],
)
def test_retention_is_read(data, retention) -> None:
    assert decode_retention(data, PATH) == retention


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b'{"retention_policies":3}',
        b'{"retention_policies":{"retentionTimeInMinutes":"1"}}',
        b'{"retention_policies":{"retentionSizeInMB":-2}}',
    ],
)
def test_policies_that_cannot_be_read_are_refused_by_their_path(data) -> None:
    with pytest.raises(RecordError, match=PATH):
        decode_retention(data, PATH)
