"""Settings of dispatch, named after the keys of broker.conf."""

from msgspec import Struct


class DispatchSettings(Struct, frozen=True):
    """Limits of reads, turns and unacknowledged messages; 0 switches a limit of unacknowledged messages off.

    Attributes:
        max_read_batch: `dispatcherMaxReadBatchSize`, entries of a read (D10).
        min_read_batch: `dispatcherMinReadBatchSize`, entries of a read after a failed one (D10).
        max_read_bytes: `dispatcherMaxReadSizeBytes` (D10).
        max_round_robin_batch: `dispatcherMaxRoundRobinBatchSize`, messages of a consumer's turn (D2).
        max_unacked_per_consumer: `maxUnackedMessagesPerConsumer` (D1).
        max_unacked_per_subscription: `maxUnackedMessagesPerSubscription` (D1).
        throttle_without_backlog: `dispatchThrottlingOnNonBacklogConsumerEnabled` (D5).
        throttle_entries: `dispatchThrottlingOnBatchMessageEnabled`: rates count a batch as one (D5).
        failure_backoff_ms: `dispatcherReadFailureBackoffInitialTimeInMs`, the pause after a failed read.
        max_failure_backoff_ms: `dispatcherReadFailureBackoffMaxTimeInMs`.
        failover_delay_ms: `activeConsumerFailoverDelayTimeMillis` (D2).
        failover_consistent_hashing: `activeConsumerFailoverConsistentHashing` (D2).
        consistent_hashing: `subscriptionKeySharedUseConsistentHashing` (D2).
        consistent_hashing_points: `subscriptionKeySharedConsistentHashingReplicaPoints` (D2).
        holds_delayed: `delayedDeliveryEnabled`; without, entries that are not due go out at once (D3).
        delayed_tick_ms: `delayedDeliveryTickTimeMillis` (D3).
        look_ahead_per_consumer: `keySharedLookAheadMsgInReplayThresholdPerConsumer`; 0 is no limit (D7).
        look_ahead_per_subscription: `keySharedLookAheadMsgInReplayThresholdPerSubscription`; 0 is no limit (D7).
    """

    max_read_batch: int = 100
    min_read_batch: int = 1
    max_read_bytes: int = 5 << 20
    max_round_robin_batch: int = 20
    max_unacked_per_consumer: int = 50_000
    max_unacked_per_subscription: int = 200_000
    throttle_without_backlog: bool = True
    throttle_entries: bool = False
    failure_backoff_ms: int = 15_000
    max_failure_backoff_ms: int = 60_000
    failover_delay_ms: int = 1_000
    failover_consistent_hashing: bool = False
    consistent_hashing: bool = True
    consistent_hashing_points: int = 100
    holds_delayed: bool = True
    delayed_tick_ms: int = 1_000
    look_ahead_per_consumer: int = 2_000
    look_ahead_per_subscription: int = 20_000
