"""`mledger topics describe`."""

import click

from mledger.admin.inspect import Inspector
from mledger.admin.partitions import (
    read_partitioned,
)
from mledger.admin.policies.topic_policies import PolicyReader
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.names import topic_argument
from mledger.cli.shared.output.results import OutputRecord
from mledger.cli.shared.read_only import read_only_cluster
from mledger.cli.topics.description import described_partitions, described_topic
from mledger.config import ManagedLedgerConfig
from mledger.errors import PoliciesUnavailable
from mledger.ledgers.retention import RetentionInForce, retention_in_force
from mledger.metastore.records.paths import TopicName


@click.command(epilog="Example: mledger topics describe orders")
@topic_argument
@common_options
@click.pass_obj
def describe(context: CommandContext, topic: str) -> None:
    """Show TOPIC's ledgers, its end and its cursors; change nothing and fence nothing.

    For a partitioned topic, show the partitions.
    """
    context.output.record(context.run(_describe(context.url, topic)))


async def _describe(url: str, topic: str) -> OutputRecord:
    name = TopicName.parse(topic)
    async with read_only_cluster(url) as cluster:
        inspector = Inspector(cluster.metadata, cluster.bookies)
        plain = await cluster.metadata.exists(name.managed_ledger_path) is not None
        if not plain and await read_partitioned(cluster.metadata, name) is not None:
            return described_partitions(topic, await inspector.partitioned(str(name)))
        found = await inspector.topic(str(name))
        retention: RetentionInForce | PoliciesUnavailable
        try:
            policies = await PolicyReader(cluster.metadata, cluster.bookies).policies(name.managed_ledger_name)
            retention = retention_in_force(policies, ManagedLedgerConfig())
        except PoliciesUnavailable as error:
            retention = error
        return described_topic(topic, found, retention)
