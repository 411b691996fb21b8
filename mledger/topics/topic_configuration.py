"""The settings of an open topic, which policies change while it is open (M6, M10)."""

from collections.abc import Callable
from dataclasses import replace

from mledger.config import ManagedLedgerConfig
from mledger.ledgers.ledger_factory import LedgerFactory
from mledger.ledgers.retention import TopicPolicies, persistence_in_force
from mledger.topics.appender import Appender
from mledger.topics.topic_cursors import TopicCursors


def plan_config(config: ManagedLedgerConfig, policies: TopicPolicies) -> ManagedLedgerConfig:
    """The settings `config` with what policies set: the quorums of new ledgers, and the mark-delete rate."""
    persistence, rate = persistence_in_force(policies), policies.service.mark_delete_rate
    if persistence is not None:
        config = replace(
            config,
            ensemble_size=persistence.ensemble_size,
            write_quorum_size=persistence.write_quorum,
            ack_quorum_size=persistence.ack_quorum,
        )
    return config if rate is None else replace(config, throttle_mark_delete=rate)


class TopicConfiguration(TopicCursors):
    """The part of a topic that holds its settings and policies."""

    _base_config: ManagedLedgerConfig
    _policies: TopicPolicies | None
    _policy_listeners: list[Callable[[TopicPolicies], object]]
    _factory: LedgerFactory
    _appender: Appender | None

    @property
    def policies(self) -> TopicPolicies:
        """The policies of the topic and its namespace as last read; empty unless the cluster follows policies."""
        return self._policies or TopicPolicies()

    @property
    def policies_known(self) -> bool:
        """Whether its policies could be read since it was opened; before that, no default deletes anything."""
        return self._policies is not None

    def on_policies(self, listener: Callable[[TopicPolicies], object]) -> None:
        """Call `listener` with the policies whenever they change."""
        self._policy_listeners.append(listener)

    def configure(self, config: ManagedLedgerConfig) -> None:
        """Replace the settings: limits hold at once, quorums from the next ledger on."""
        self.config = config
        self._factory.config = config
        self.reader.configure(config)
        if self._appender is not None:
            self._appender.configure(config)
        for cursor in self.open_cursors.values():
            cursor.configure(config)

    def apply_policies(self, policies: TopicPolicies) -> None:
        """Take over changed policies."""
        self._policies = policies
        config = plan_config(self._base_config, policies)
        if config != self.config:
            self.configure(config)
        self._trimmer.trim_later()
        for listener in self._policy_listeners:
            listener(policies)
