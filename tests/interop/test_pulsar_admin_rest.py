"""The admin REST API of our broker beside that of Pulsar's, on one cluster: equal answers, and equal nodes."""

import json
import urllib.error
import urllib.request

import pytest

from tests.support.aio import HANG_S
from tests.support.broker_process import BrokerRun
from tests.support.java.pulsar_broker import CLUSTER
from tests.support.java.pulsar_cluster import eventually
from tests.support.ports import free_late_port

pytestmark = pytest.mark.interop

RETENTION = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 100}
QUORUMS = {
    "bookkeeperEnsemble": 3,
    "bookkeeperWriteQuorum": 2,
    "bookkeeperAckQuorum": 2,
    "managedLedgerMaxMarkDeleteRate": 1.5,
}
RATE = {
    "dispatchThrottlingRateInMsg": 10,
    "dispatchThrottlingRateInByte": 100,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}
DELAYED = {"tickTime": 2000, "active": True, "maxDeliveryDelayInMillis": 0}
POLICIES = (
    ("POST", "retention", RETENTION),
    ("POST", "messageTTL", 60),
    ("POST", "persistence", QUORUMS),
    ("POST", "deduplication", True),
    ("POST", "deduplicationSnapshotInterval", 10),
    ("PUT", "compactionThreshold", 100),
    ("PUT", "schemaCompatibilityStrategy", "BACKWARD"),
    ("POST", "schemaValidationEnforced", True),
    ("POST", "isAllowAutoUpdateSchema", False),
    ("POST", "maxProducersPerTopic", 3),
    ("POST", "maxConsumersPerTopic", 4),
    ("POST", "maxConsumersPerSubscription", 5),
    ("POST", "maxSubscriptionsPerTopic", 6),
    ("POST", "maxUnackedMessagesPerConsumer", 7),
    ("POST", "maxUnackedMessagesPerSubscription", 8),
    ("POST", "encryptionRequired", True),
    ("POST", "delayedDelivery", DELAYED),
    ("POST", "dispatchRate", RATE),
    ("POST", "subscriptionDispatchRate", RATE),
    ("POST", "publishRate", {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": 100}),
    ("POST", "permissions/me", ["produce"]),
)
REMOVED = ("retention", "messageTTL", "persistence", "deduplication", "maxProducersPerTopic", "publishRate")
TENANT = {"adminRoles": ["a"], "allowedClusters": [CLUSTER]}
REQUESTS = (
    ("GET", "clusters", None),
    ("GET", "clusters/none", None),
    ("PUT", "clusters/{own}", {"serviceUrl": "http://127.0.0.1:1"}),
    ("PUT", "clusters/{own}", {"serviceUrl": "http://127.0.0.1:1"}),
    ("POST", "clusters/{own}", {"serviceUrl": "http://127.0.0.1:2"}),
    ("POST", "clusters/{own}x", {"serviceUrl": "http://127.0.0.1:2"}),
    ("GET", "clusters/{own}", None),
    ("DELETE", "clusters/{own}", None),
    ("DELETE", "clusters/{own}", None),
    ("GET", "brokers/health", None),
    ("PUT", "tenants/{own}", TENANT),
    ("PUT", "tenants/{own}", TENANT),
    ("PUT", "tenants/{own}x", {"adminRoles": [], "allowedClusters": ["nowhere"]}),
    ("PUT", "tenants/{own}x", {"adminRoles": [], "allowedClusters": []}),
    ("PUT", "tenants/b$d", TENANT),
    ("POST", "tenants/{own}", TENANT | {"adminRoles": ["b"]}),
    ("POST", "tenants/{own}x", TENANT),
    ("GET", "tenants/{own}", None),
    ("GET", "tenants/{own}x", None),
    ("GET", "namespaces/{own}x", None),
    ("PUT", "namespaces/{own}/ns", {"bundles": {"numBundles": 8}}),
    ("PUT", "namespaces/{own}/ns", None),
    ("PUT", "namespaces/{own}x/ns", None),
    ("PUT", "namespaces/{own}/n$s", None),
    ("GET", "namespaces/{own}", None),
    ("GET", "namespaces/{own}/ns", None),
    ("GET", "namespaces/{own}/none", None),
    ("GET", "namespaces/{own}/ns/bundles", None),
    ("GET", "namespaces/{own}/ns/topics", None),
    ("GET", "namespaces/{own}/none/topics", None),
    ("GET", "persistent/{own}/ns", None),
    ("GET", "persistent/{own}/none", None),
    ("GET", "persistent/{own}/ns/partitioned", None),
    ("DELETE", "tenants/{own}", None),
    *((method, f"namespaces/{{own}}/ns/{path}", value) for method, path, value in POLICIES),
    *(("GET", f"namespaces/{{own}}/ns/{path.split('/')[0]}", None) for _, path, _ in POLICIES),
    ("POST", "namespaces/{own}/ns/retention", RETENTION | {"retentionSizeInMB": 0}),
    ("POST", "namespaces/{own}/ns/messageTTL", -1),
    ("POST", "namespaces/{own}/ns/persistence", QUORUMS | {"bookkeeperEnsemble": 1}),
    ("POST", "namespaces/{own}/ns/maxProducersPerTopic", -1),
    ("POST", "namespaces/{own}/ns/backlogQuota", {"limitSize": 1 << 20, "policy": "producer_exception"}),
    ("POST", "namespaces/{own}/ns/backlogQuota", {"limitSize": 1 << 20}),
    ("GET", "namespaces/{own}/ns/backlogQuotaMap", None),
    ("POST", "namespaces/{own}/ns/retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 1}),
    ("POST", "namespaces/{own}/none/retention", RETENTION),
    *(("DELETE", f"namespaces/{{own}}/ns/{path}", None) for path in REMOVED),
    *(("GET", f"namespaces/{{own}}/ns/{path}", None) for path in REMOVED),
    ("GET", "namespaces/{own}/ns", None),
    ("DELETE", "namespaces/{own}/ns?force=true", None),
    ("DELETE", "namespaces/{own}/ns", None),
    ("DELETE", "namespaces/{own}/ns", None),
    ("DELETE", "tenants/{own}", None),
    ("DELETE", "tenants/{own}", None),
)


@pytest.fixture(scope="module")
def own_port(pulsar, tmp_path_factory):
    """The HTTP port of a broker of ours on the cluster of Pulsar's."""
    port = free_late_port()
    run = BrokerRun(
        pulsar.url,
        tmp_path_factory.mktemp("admin-rest") / "broker.log",
        settings=(f"clusterName={CLUSTER}",),
        options=("--metrics-port", str(port)),
    ).start()
    yield port
    run.stop()


def ask(port, method, path, body=None):
    """The status of the answer, and its JSON; None without one, or of a refusal."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/admin/v2/{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=HANG_S) as answer:
            found, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, None
    return found, json.loads(text) if text[:1] in '{["0123456789tf' and text else None


def test_every_request_has_pulsars_status_and_json(pulsar, own_port):
    def answers(port, name):
        found = []
        for method, path, body in REQUESTS:
            status, content = ask(port, method, path.format(own=name), body)
            found.append((method, path, status, json.loads(json.dumps(content).replace(name, "own"))))
        return found

    theirs, ours = answers(pulsar.broker.web_port, "rest-theirs"), answers(own_port, "rest-ours")
    for one, other in zip(ours, theirs, strict=True):
        assert one == other


def test_policies_that_we_wrote_are_those_that_pulsar_reads(pulsar, own_port):
    namespace = pulsar.namespace("rest-shared")
    for method, path, value in POLICIES:
        assert ask(own_port, method, f"namespaces/{namespace}/{path}", value)[0] == 204
    shown = ask(own_port, "GET", f"namespaces/{namespace}")[1]

    def read():
        return ask(pulsar.broker.web_port, "GET", f"namespaces/{namespace}")[1]

    eventually(lambda: read() == shown, lambda: f"{read()} is {shown}")
    assert shown["retention_policies"] == RETENTION
    assert shown["auth_policies"]["namespace_auth"] == {"me": ["produce"]}
