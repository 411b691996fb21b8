"""The official admin client for Go, on Pulsar's broker and on ours: each call returns the same, or the same status."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from tests.clients.builds import go_program
from tests.interop.pulsar.compared_brokers import of_pulsar, own
from tests.interop.pulsar.pulsar_admin_output import without_chance
from tests.support.java.pulsar_broker import CLUSTER
from tests.support.java.pulsar_cluster import eventually

__all__ = ["of_pulsar", "own"]

pytestmark = [pytest.mark.interop, pytest.mark.clients]

TENANT, NAMESPACE, NONE = "of-go", "of-go/ns", "of-go/none"
TOPIC, PARTITIONED = "persistent://of-go/ns/t", "persistent://of-go/ns/p"
DISPATCH = {"dispatchThrottlingRateInMsg": 5, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}
PERSISTENCE = {
    "bookkeeperEnsemble": 3,
    "bookkeeperWriteQuorum": 2,
    "bookkeeperAckQuorum": 2,
    "managedLedgerMaxMarkDeleteRate": 0,
}
SCHEMA = {"type": "AVRO", "schema": json.dumps({"type": "record", "name": "R", "fields": []}), "properties": {}}
NOT_KEPT = ("lastPublishTimestamp", "topicCreationTimeStamp", "replication", "consumersAfterMarkDeletePosition")
"""Figures that ours leaves out, which the client then gives as zeroes."""
Call = tuple[str, str, list[Any]]


def policy(part: str, of: str, name: str, value: object, *options: object) -> list[Call]:
    """A policy is asked for, set, asked for, removed, and asked for."""
    ask: Call = (part, f"Get{name}", [of, *options])
    return [ask, (part, f"Set{name}", [of, value]), ask, (part, f"Remove{name}", [of]), ask]


BEFORE: list[Call] = [
    ("Clusters", "List", []),
    ("Brokers", "HealthCheck", []),
    ("Tenants", "Create", [{"name": TENANT, "adminRoles": ["admin"], "allowedClusters": [CLUSTER]}]),
    ("Tenants", "Create", [{"name": TENANT, "allowedClusters": [CLUSTER]}]),
    ("Tenants", "Get", [TENANT]),
    ("Tenants", "Get", ["none"]),
    ("Tenants", "Update", [{"name": TENANT, "adminRoles": [], "allowedClusters": [CLUSTER]}]),
    ("Tenants", "Get", [TENANT]),
    ("Namespaces", "CreateNamespace", [NAMESPACE]),
    ("Namespaces", "CreateNamespace", [NAMESPACE]),
    ("Namespaces", "GetNamespaces", [TENANT]),
    ("Namespaces", "GetPolicies", [NAMESPACE]),
    ("Namespaces", "GetPolicies", [NONE]),
    *policy("Namespaces", NAMESPACE, "NamespaceMessageTTL", 60)[:3],
    ("Namespaces", "RemoveNamespaceMessageTTL", [NAMESPACE]),
    *policy("Namespaces", NAMESPACE, "Retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20}),
    *policy("Namespaces", NAMESPACE, "Persistence", PERSISTENCE),
    *policy("Namespaces", NAMESPACE, "MaxProducersPerTopic", 3),
    *policy("Namespaces", NAMESPACE, "MaxConsumersPerTopic", 3),
    *policy("Namespaces", NAMESPACE, "MaxTopicsPerNamespace", 30),
    ("Namespaces", "SetDispatchRate", [NAMESPACE, DISPATCH]),
    ("Namespaces", "GetDispatchRate", [NAMESPACE]),
    ("Namespaces", "SetDeduplicationStatus", [NAMESPACE, True]),
    ("Namespaces", "GrantNamespacePermission", [NAMESPACE, "reader", ["consume"]]),
    ("Namespaces", "GetNamespacePermissions", [NAMESPACE]),
    ("Namespaces", "RevokeNamespacePermission", [NAMESPACE, "reader"]),
    ("Namespaces", "GetNamespacePermissions", [NAMESPACE]),
    ("Topics", "Create", [TOPIC, 0]),
    ("Topics", "Create", [TOPIC, 0]),
    ("Topics", "Create", [PARTITIONED, 3]),
    ("Topics", "Update", [PARTITIONED, 4]),
    ("Topics", "GetMetadata", [PARTITIONED]),
    ("Topics", "List", [NAMESPACE]),
    ("Topics", "Lookup", [TOPIC]),
    ("Topics", "GetStats", ["persistent://of-go/ns/none"]),
    ("Subscriptions", "Create", [TOPIC, "s", "-1:-1"]),
    ("Subscriptions", "Create", [TOPIC, "s", "-1:-1"]),
    ("Subscriptions", "List", [TOPIC]),
    ("Schemas", "CreateSchemaByPayload", ["of-go/ns/with-schema", SCHEMA]),
    ("Schemas", "GetSchemaInfo", ["of-go/ns/with-schema"]),
    ("Schemas", "GetSchemaInfo", ["of-go/ns/none"]),
]
AFTER: list[Call] = [
    ("Topics", "GetLastMessageID", [TOPIC]),
    ("Topics", "GetStats", [TOPIC]),
    ("Topics", "GetInternalStats", [TOPIC]),
    ("Topics", "GetPartitionedStats", [PARTITIONED, False]),
    ("Subscriptions", "PeekMessages", [TOPIC, "s", 2]),
    ("Subscriptions", "SkipMessages", [TOPIC, "s", 2]),
    ("Subscriptions", "PeekMessages", [TOPIC, "s", 1]),
    ("Subscriptions", "ResetCursorToTimestamp", [TOPIC, "s", 0]),
    ("Subscriptions", "PeekMessages", [TOPIC, "s", 1]),
    ("Subscriptions", "ClearBacklog", [TOPIC, "s"]),
    ("Subscriptions", "ExpireMessages", [TOPIC, "s", 100]),
    ("Topics", "CompactStatus", [TOPIC]),
    ("Topics", "Terminate", [TOPIC]),
    ("Topics", "Unload", [TOPIC]),
    *policy("Topics", TOPIC, "MessageTTL", 60),
    *policy("Topics", TOPIC, "MaxProducers", 3),
    *policy("Topics", TOPIC, "Retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20})[1:2],
    ("Topics", "GetRetention", [TOPIC, False]),
    ("Subscriptions", "Delete", [TOPIC, "s"]),
    ("Subscriptions", "Delete", [TOPIC, "s"]),
    ("Topics", "Delete", [TOPIC, False, True]),
    ("Topics", "Delete", [TOPIC, False, True]),
    ("Topics", "Delete", [PARTITIONED, False, False]),
    ("Topics", "Delete", ["persistent://of-go/ns/with-schema", True, True]),
    ("Namespaces", "DeleteNamespace", [NAMESPACE]),
    ("Tenants", "Delete", [TENANT]),
    ("Tenants", "Delete", [TENANT]),
]


@pytest.fixture(scope="module")
def client():
    """The process that makes calls."""
    if shutil.which("go") is None:
        pytest.skip("the official client for Go needs go")
    with subprocess.Popen([go_program("admin")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def called(client, broker, part, method, arguments):
    """What a call returned or failed with, without what differs between any two clusters."""
    wanted = {"url": f"http://127.0.0.1:{broker.port}", "part": part, "method": method, "arguments": arguments}
    client.stdin.write(json.dumps(wanted) + "\n")
    client.stdin.flush()
    answer = json.loads(client.stdout.readline())
    if answer["error"]:
        return answer["error"].split(" reason: ")[0]
    return [without_chance(json.dumps(without_unkept(value))) for value in answer["returned"]]


def called_on_pulsar(client, broker, part, method, arguments):
    """As `called`; once more if a deletion fails because Pulsar still deletes what it does in the background.

    The one that failed may have deleted all the same, so that the next one finds nothing.
    """
    found = []

    def is_settled():
        found.append(called(client, broker, part, method, arguments))
        return not (method == "Delete" and found[-1] == "code: 500")

    eventually(is_settled, lambda: f"{part}.{method} {arguments}")
    return [] if len(found) > 1 and found[-1] == "code: 404" else found[-1]


def without_unkept(value):
    """A returned value without the figures that ours leaves out."""
    if isinstance(value, dict):
        return {name: without_unkept(each) for name, each in value.items() if name not in NOT_KEPT}
    return value


def test_calls_return_the_same_on_both_brokers(client, of_pulsar, own):
    different = []
    for calls in (BEFORE, AFTER):
        for part, method, arguments in calls:
            theirs = called_on_pulsar(client, of_pulsar, part, method, arguments)
            ours = called(client, own, part, method, arguments)
            if theirs != ours:
                different.append(((part, method, arguments), theirs, ours))
        if calls is BEFORE:
            for broker in (of_pulsar, own):
                broker.send(TOPIC, 5)
    assert not different, "\n".join(map(str, different))
