"""The ensemble size and quorums of new ledgers for a topic whose settings leave them to the cluster (M6).

The topic's policies come first, then its namespace's, then its last ledger's metadata, then the settings' defaults.
"""

from collections.abc import Sequence
from dataclasses import replace

from mledger.admin.policies.topic_policies import PolicyReader
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.errors import NoSuchLedger
from mledger.config import ManagedLedgerConfig
from mledger.errors import PoliciesUnavailable
from mledger.ledgers.retention import persistence_in_force
from mledger.metastore.cluster.policies import Persistence
from mledger.metastore.records.ledger_metadata import LedgerMetadata
from mledger.metastore.records.paths import is_possible_ledger
from mledger.metastore.records.values import LedgerInfo
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

LOOKED_AT = 3  # how many of a topic's last ledgers are tried
RECENT_S = 60.0  # policies read this long ago are recent enough


def plan_quorums(
    config: ManagedLedgerConfig, policy: Persistence | None, last: LedgerMetadata | None
) -> ManagedLedgerConfig:
    """The settings with the quorums of `policy`, else those of the topic's `last` ledger, else their own."""
    if policy is None and last is not None:
        policy = Persistence(last.ensemble_size, last.write_quorum, last.ack_quorum)
    if policy is None:
        return config
    return replace(
        config,
        ensemble_size=policy.ensemble_size,
        write_quorum_size=policy.write_quorum,
        ack_quorum_size=policy.ack_quorum,
    )


async def with_cluster_quorums(
    config: ManagedLedgerConfig,
    policies: PolicyReader,
    bookkeeper: BookKeeperReader,
    managed_ledger: str,
    ledgers: Sequence[LedgerInfo],
) -> ManagedLedgerConfig:
    """The settings with the cluster's quorums for the managed ledger, whose list is `ledgers`.

    Policies that cannot be read are logged and ignored. RecordError, StoreUnavailable.
    """
    policy = None
    try:
        policy = persistence_in_force(await policies.policies(managed_ledger, max_age_s=RECENT_S))
    except PoliciesUnavailable as error:
        log.warning(
            "policies_unknown", topic=managed_ledger, error=error, hint="quorums are taken from its last ledger"
        )
    last = None if policy is not None else await last_metadata(bookkeeper, ledgers)
    return plan_quorums(config, policy, last)


async def last_metadata(bookkeeper: BookKeeperReader, ledgers: Sequence[LedgerInfo]) -> LedgerMetadata | None:
    """The metadata of the last ledger that exists; only the last `LOOKED_AT` are tried.

    RecordError, StoreUnavailable.
    """
    for ledger in reversed(ledgers[-LOOKED_AT:]):
        if not is_possible_ledger(ledger.ledger_id):
            continue
        try:
            return await bookkeeper.metadata(ledger.ledger_id)
        except NoSuchLedger:
            continue
    return None
