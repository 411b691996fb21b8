"""Nodes are changed beside other writers, and an end is put to that."""

from types import SimpleNamespace

import pytest

from mledger.broker.admin_rest import json_node
from mledger.broker.admin_rest.json_node import ATTEMPTS, change_data, change_object
from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.topics.topic_action_resource import plan_partitioned_properties
from mledger.metastore.errors import BadVersion
from mledger.metastore.records.partitioned_topic import PartitionedTopic
from tests.support.aio import run


class ContestedStore:
    """A store with one node, which others write before each of the first `contests` writes."""

    def __init__(self, data, contests):
        self.data, self.version, self.contests, self.synced = data, 0, contests, 0

    async def get_many(self, _):
        return [SimpleNamespace(data=self.data, version=self.version)]

    async def sync(self):
        self.synced += 1

    async def put(self, _, path, data, version):
        if self.contests:
            self.contests -= 1
            self.version += 1
            self.data = b'{"theirs":1}'
        if version != self.version:
            raise BadVersion("x", path)
        self.data = data


@pytest.fixture
def contested(monkeypatch):
    """Makes a store of a node that others write so often."""

    def make(contests):
        store = ContestedStore(b"{}", contests)
        monkeypatch.setattr(json_node, "put_own", store.put)
        return store

    return make


def test_a_change_is_made_anew_of_what_others_wrote(contested):
    store = contested(1)
    assert run(change_object(store, "/x", lambda found: {**found, "mine": 2})) == {"theirs": 1, "mine": 2}
    assert (store.data, store.synced) == (b'{"theirs":1,"mine":2}', 1)


def test_a_node_that_keeps_changing_is_named(contested):
    with pytest.raises(AdminRefusal, match=r"^/x keeps changing: try again$"):
        run(change_data(contested(ATTEMPTS), "/x", lambda found: found))


def test_properties_of_a_partitioned_topic_change_beside_the_rest_of_its_record():
    record = PartitionedTopic(2, properties=(("a", "1"), ("b", "2")), unknown=(("more", "[3]"),))
    assert plan_partitioned_properties(record, {"a": "é"}, ["b"]) == (
        '{"partitions":2,"deleted":false,"properties":{"a":"é"},"more":[3]}'.encode()
    )
