"""The admin REST API of our broker beside that of Pulsar's, on one cluster: equal answers, and equal nodes."""

import contextlib
import json
import urllib.error
import urllib.request

import pytest

from tests.support.aio import HANG_S
from tests.support.brokers.broker_process import BrokerRun
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
QUOTA = {"limitSize": 1 << 20, "limitTime": -1, "policy": "producer_exception"}
TOPIC_POLICIES = (
    ("retention", RETENTION),
    ("persistence", QUORUMS),
    ("deduplicationEnabled", True),
    ("deduplicationSnapshotInterval", 10),
    ("maxProducers", 3),
    ("maxConsumers", 4),
    ("maxConsumersPerSubscription", 5),
    ("maxSubscriptionsPerTopic", 6),
    ("maxUnackedMessagesOnConsumer", 7),
    ("maxUnackedMessagesOnSubscription", 8),
    ("publishRate", {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": 100}),
    ("dispatchRate", RATE),
    ("subscriptionDispatchRate", RATE),
    ("sub/dispatchRate", RATE),
    ("compactionThreshold", 100),
    ("delayedDelivery", DELAYED),
)
SHOWN = ("backlogQuotaMap", "messageTTL", *(path for path, _ in TOPIC_POLICIES))
TOPIC_REQUESTS = (
    *(("GET", path, None) for path in SHOWN),
    *(("DELETE", path, None) for path in ("messageTTL", "backlogQuota", "retention")),
    *(("POST", path, value) for path, value in TOPIC_POLICIES),
    ("POST", "messageTTL?messageTTL=60", None),
    ("POST", "backlogQuota", QUOTA),
    ("POST", "backlogQuota?backlogQuotaType=message_age", {"limitTime": 60, "policy": "consumer_backlog_eviction"}),
    *(("GET", path, None) for path in SHOWN),
    ("POST", "retention", RETENTION | {"retentionSizeInMB": 1}),
    ("POST", "retention", RETENTION | {"retentionSizeInMB": 0}),
    ("POST", "backlogQuota", QUOTA | {"limitSize": 1 << 40}),
    ("POST", "backlogQuota", {"limitSize": 1}),
    ("POST", "persistence", QUORUMS | {"bookkeeperEnsemble": 1}),
    ("POST", "messageTTL?messageTTL=-1", None),
    ("POST", "maxProducers", -1),
    ("POST", "compactionThreshold", -1),
    ("POST", "maxProducers?isGlobal=true", 30),
    ("GET", "maxProducers?isGlobal=true", None),
    ("GET", "maxConsumers?isGlobal=true", None),
    ("DELETE", "backlogQuota?backlogQuotaType=message_age", None),
    *(("DELETE", path, None) for path, _ in TOPIC_POLICIES[:9]),
    *(("GET", path, None) for path in SHOWN),
)


@pytest.fixture(scope="module")
def of_theirs(pulsar):
    """Namespaces that Pulsar's broker serves, since it is the only one."""
    return {name: namespace_at(pulsar, pulsar.broker.web_port, f"{name}-theirs") for name in ("policies", "shared")}


@pytest.fixture(scope="module")
def own_port():
    """The HTTP port of our broker."""
    return free_late_port()


@pytest.fixture(scope="module", autouse=True)
def own_run(pulsar, of_theirs, own_port, tmp_path_factory):
    """A broker of ours on the cluster of Pulsar's; the last test stops it."""
    run = BrokerRun(
        pulsar.url,
        tmp_path_factory.mktemp("admin-rest") / "broker.log",
        settings=(f"clusterName={CLUSTER}",),
        options=("--metrics-port", str(own_port)),
    ).start()
    with contextlib.ExitStack() as stopped:
        stopped.callback(run.stop)
        yield stopped


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Leaves it at the answer that sends a request to another broker."""

    def redirect_request(self, *_):
        return None


OPENER = urllib.request.build_opener(_NoRedirects)


def ask(port, method, path, body=None):
    """The status of this broker's answer, and its JSON; None without one, or of a refusal."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/admin/v2/{path}", data, headers, method=method)
    try:
        with OPENER.open(request, timeout=HANG_S) as answer:
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


def namespace_at(pulsar, port, name):
    """A namespace of one bundle that the broker at `port` serves, and a partitioned topic there."""
    whole = {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}
    namespace = pulsar.namespace(name, bundles=whole)
    assert ask(port, "PUT", f"persistent/{namespace}/t?authoritative=true")[0] == 204
    return namespace


def test_every_request_about_a_topics_policies_has_pulsars_status_and_json(pulsar, own_port, of_theirs):
    found = []
    of_ours = namespace_at(pulsar, own_port, "policies-ours")
    for port, namespace in ((own_port, of_ours), (pulsar.broker.web_port, of_theirs["policies"])):
        base = f"persistent/{namespace}"
        requests = [(method, f"t/{path}", body) for method, path, body in TOPIC_REQUESTS]
        requests += [("GET", f"{topic}/retention", None) for topic in ("none", "t-partition-0")]
        found.append([(method, path, *ask(port, method, f"{base}/{path}", body)) for method, path, body in requests])
    different = [pair for pair in zip(*found, strict=True) if pair[0] != pair[1]]
    assert not different, different


def shows(port, base, values):
    """Wait until the broker shows these policies of a topic."""
    for path, value in values.items():
        eventually(
            lambda path=path, value=value: ask(port, "GET", f"{base}/{path}")[1] == value,
            lambda path=path, value=value: f"{path}: {ask(port, 'GET', f'{base}/{path}')} is {value}",
        )


def test_we_read_and_change_the_topic_policies_that_pulsar_wrote(pulsar, own_port, of_theirs):
    theirs, namespace = pulsar.broker.web_port, of_theirs["shared"]
    base, values = f"persistent/{namespace}/t", dict(TOPIC_POLICIES) | {"maxMessageSize": 1000}
    for path, value in values.items():
        assert ask(theirs, "POST", f"{base}/{path}", value)[0] == 204
        shows(theirs, base, {path: value})
    shows(own_port, base, dict(TOPIC_POLICIES))

    def taken():
        ask(theirs, "PUT", f"namespaces/{namespace}/unload")
        return ask(own_port, "POST", f"{base}/maxProducers?authoritative=true", 33)[0] == 204

    eventually(taken, lambda: "our broker takes the bundle")
    shows(own_port, base, dict(TOPIC_POLICIES) | {"maxProducers": 33})


def test_pulsar_reads_and_changes_the_topic_policies_that_we_wrote(pulsar, own_run, own_port, of_theirs):
    theirs = pulsar.broker.web_port
    base = f"persistent/{namespace_at(pulsar, own_port, 'shared-ours')}/t"
    for path, value in TOPIC_POLICIES:
        assert ask(own_port, "POST", f"{base}/{path}", value)[0] == 204
    assert ask(own_port, "DELETE", f"{base}/retention")[0] == 204
    own_run.close()  # Pulsar's broker serves everything from here on
    shows(theirs, base, dict(TOPIC_POLICIES) | {"retention": None})
    changed = {"maxProducers": 33, "maxMessageSize": 1000}
    for path, value in changed.items():
        assert ask(theirs, "POST", f"{base}/{path}", value)[0] == 204
        shows(theirs, base, {path: value})
    shows(theirs, base, dict(TOPIC_POLICIES) | {"retention": None} | changed)
    both = dict(TOPIC_POLICIES) | {"maxProducers": 33, "maxMessageSize": 1000}
    shows(theirs, f"persistent/{of_theirs['shared']}/t", both)  # ours kept the field that it does not know
