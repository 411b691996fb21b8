"""A change whose answer from the metadata store was lost is done, and answered so: another try would find it done."""

from mledger.broker.admin_rest.cluster.cluster_resource import CLUSTERS
from mledger.broker.admin_rest.namespaces.policies_node import policies_path
from mledger.broker.dynamic_settings import CONFIGURATION
from mledger.broker.schemas.stored_schema import locator_path
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.paths import TopicName
from tests.support.admin_rest import web_served
from tests.support.aio import run

TENANT = {"adminRoles": [], "allowedClusters": ["standalone"]}
STRING = {"type": "STRING", "schema": "", "properties": {}}


def plan_changes(name):
    """Requests, each with the node that it changes, and each possible after those before it."""
    space = f"{name}/space"
    parts, one = TopicName(name, "space", "parts"), TopicName(name, "space", "one")
    namespace, partitioned = policies_path(space), parts.partitioned_topic_path
    return [
        ("PUT", f"tenants/{name}", TENANT, policies_path(name)),
        ("POST", f"tenants/{name}", TENANT | {"adminRoles": ["owner"]}, policies_path(name)),
        ("PUT", f"namespaces/{space}", {}, namespace),
        ("POST", f"namespaces/{space}/messageTTL", 60, namespace),
        ("PUT", f"persistent/{space}/parts/partitions", 2, partitioned),
        ("POST", f"persistent/{space}/parts/partitions", 3, partitioned),
        ("DELETE", f"persistent/{space}/parts/partitions", None, partitioned),
        ("PUT", f"persistent/{space}/one", None, one.managed_ledger_path),
        ("POST", f"schemas/{space}/one/schema", STRING, locator_path(f"{space}/one")),
        ("DELETE", f"schemas/{space}/one/schema?force=true", None, locator_path(f"{space}/one")),
        ("DELETE", f"persistent/{space}/one", None, one.managed_ledger_path),
        ("DELETE", f"namespaces/{space}", None, namespace),
        ("DELETE", f"tenants/{name}", None, policies_path(name)),
        ("PUT", f"clusters/{name}", {"serviceUrl": "http://other:8080"}, f"{CLUSTERS}/{name}"),
        ("DELETE", f"clusters/{name}", None, f"{CLUSTERS}/{name}"),
        ("POST", "brokers/configuration/maxTopicsPerNamespace/0", None, CONFIGURATION),
        ("DELETE", "brokers/configuration/maxTopicsPerNamespace", None, CONFIGURATION),
    ]


class LostAnswers:
    """Writes of a store that are carried out, while the answer to the next one of `path` is lost."""

    def __init__(self, store, monkeypatch):
        self.path = ""
        for name in ("put", "create", "delete", "multi"):
            monkeypatch.setattr(store, name, self._losing(getattr(store, name)))

    def _losing(self, write):
        async def wrapped(what, *arguments, **named):
            found = await write(what, *arguments, **named)
            if self.path in ([what] if isinstance(what, str) else [each.path for each in what]):
                self.path = ""
                raise StoreUnavailable("the connection broke")
            return found

        return wrapped


def test_each_change_is_done_although_its_answer_was_lost(broker_url, topic, monkeypatch):
    async def main():
        async with web_served(broker_url) as broker:
            answers, failed = LostAnswers(broker.cluster.store, monkeypatch), []
            for method, path, body, node in plan_changes(topic.rsplit("/", 1)[1]):
                answers.path = node
                answer = await broker.ask(method, path, body)
                assert not answers.path, f"{method} {path} has not changed {node}"
                if answer.status not in (200, 204):
                    failed.append((method, path, answer.status, answer.body))
            assert failed == []

    run(main())
