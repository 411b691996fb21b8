"""The admin REST API of a broker: from a request to its answer, without sockets."""

from http import HTTPStatus

from mledger.broker.admin_rest.authorization import Authorize, allow_all
from mledger.broker.admin_rest.cluster.bookie_resource import BookieResource
from mledger.broker.admin_rest.cluster.broker_resource import BrokerResource
from mledger.broker.admin_rest.cluster.broker_stats_resource import BrokerStatsResource
from mledger.broker.admin_rest.cluster.cluster_resource import ClusterResource
from mledger.broker.admin_rest.cluster.tenant_resource import TenantResource
from mledger.broker.admin_rest.fan_out import FanOut
from mledger.broker.admin_rest.namespaces.affinity_group_resource import AffinityGroupResource
from mledger.broker.admin_rest.namespaces.bookie_affinity_resource import BookieAffinityResource
from mledger.broker.admin_rest.namespaces.bundle_resource import BundleResource
from mledger.broker.admin_rest.namespaces.namespace_resource import NamespaceResource
from mledger.broker.admin_rest.namespaces.permission_resource import PermissionResource
from mledger.broker.admin_rest.namespaces.policies_node import PoliciesNodes
from mledger.broker.admin_rest.namespaces.policy_resource import PolicyResource
from mledger.broker.admin_rest.namespaces.property_resource import PropertyResource
from mledger.broker.admin_rest.refusals import plan_status, refusal_body
from mledger.broker.admin_rest.request_origin import check_origin
from mledger.broker.admin_rest.requests import JSON, AdminAnswer, AdminRequest, redirect_to
from mledger.broker.admin_rest.route_table import RouteTable
from mledger.broker.admin_rest.topics.backlog_resource import BacklogResource
from mledger.broker.admin_rest.topics.figures.broker_topics_resource import BrokerTopicsResource
from mledger.broker.admin_rest.topics.figures.figure_resource import FigureResource
from mledger.broker.admin_rest.topics.message_resource import MessageResource
from mledger.broker.admin_rest.topics.ownership import ServedElsewhere, TopicOwnership, topic_path
from mledger.broker.admin_rest.topics.partition_resource import PartitionResource
from mledger.broker.admin_rest.topics.policy_writer import PolicyWriter
from mledger.broker.admin_rest.topics.schema_resource import SchemaResource
from mledger.broker.admin_rest.topics.subscription_resource import SubscriptionResource
from mledger.broker.admin_rest.topics.topic_action_resource import TopicActionResource
from mledger.broker.admin_rest.topics.topic_policy_resource import TopicPolicyResource
from mledger.broker.admin_rest.topics.topic_resource import TopicResource
from mledger.broker.admin_rest.unserved import UNSERVED
from mledger.broker.connections.served_broker import ServedBroker
from mledger.cluster import Cluster
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)


class AdminApi:
    """Answers requests at `broker`, of `cluster`; `authorize` is asked before each."""

    def __init__(self, broker: ServedBroker, cluster: Cluster, authorize: Authorize = allow_all) -> None:
        self._authorize, self._broker = authorize, broker
        store, settings = cluster.store, broker.settings
        nodes = PoliciesNodes(store, settings.cluster_name, settings.default_bundles)
        ownership = TopicOwnership(broker)
        fan_out = FanOut(self.answer, broker.security)
        self._topics = topics = TopicResource(broker, cluster, nodes, ownership, fan_out)
        resources = (
            ClusterResource(store, settings.cluster_name, broker.owners.roster.address),
            BrokerResource(broker),
            BrokerStatsResource(broker.owners.roster),
            BookieResource(store),
            TenantResource(store, settings.cluster_name, nodes),
            NamespaceResource(store, nodes, broker.topics_of, topics.delete_everywhere),
            BundleResource(broker, nodes, ownership.check),
            AffinityGroupResource(nodes),
            BookieAffinityResource(nodes),
            BacklogResource(store, nodes, fan_out),
            PolicyResource(nodes),
            PropertyResource(nodes),
            PermissionResource(nodes, ownership.known, in_advance=settings.grants_in_advance),
            topics,
            PartitionResource(broker, nodes, ownership, fan_out),
            SubscriptionResource(broker, ownership, fan_out),
            MessageResource(ownership),
            TopicActionResource(broker, ownership, fan_out),
            FigureResource(ownership, fan_out, settings),
            BrokerTopicsResource(broker),
            TopicPolicyResource(broker, cluster, nodes, ownership, PolicyWriter(broker, cluster, ownership), fan_out),
            SchemaResource(broker.schemas, ownership),
        )
        self.routes = [*(route for resource in resources for route in resource.routes), *UNSERVED]
        self._table = RouteTable(self.routes)

    async def remove_remains(self, topic: TopicName) -> None:
        """Remove permissions, schema and policies of a topic that this broker has deleted by itself. MledgerError."""
        encrypted = self._broker.owners.roster.address.web_url == ""
        await self._topics.remove_remains(AdminRequest("DELETE", topic_path(topic), encrypted=encrypted), topic)

    async def answer(self, request: AdminRequest) -> AdminAnswer:
        """The answer; an error becomes one with Pulsar's status and JSON."""
        try:
            check_origin(request, self._broker)
            call, action = self._table.call(request)
            await self._authorize(request, call.operation)
            return await action(call)
        except ServedElsewhere as elsewhere:
            return redirect_to(elsewhere.location)
        except MledgerError as error:
            status = plan_status(error)
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR and status is not HTTPStatus.NOT_IMPLEMENTED:
                log.warning("admin_request_failed", method=request.method, path=request.path, error=error)
            return AdminAnswer(status, refusal_body(str(error)), JSON)
        except Exception as error:  # a node has JSON of another shape than any program writes
            log.exception("admin_request_failed", method=request.method, path=request.path)
            reason = f"unexpected {type(error).__name__}: {error}: the broker's log says where"
            return AdminAnswer(HTTPStatus.INTERNAL_SERVER_ERROR, refusal_body(reason), JSON)
