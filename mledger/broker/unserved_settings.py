"""Settings of Pulsar that ask of a broker what this one does not do. No I/O.

They are named in a warning: whoever brings a broker.conf along counts on its limits.
"""

from mledger.metastore.runtime.settings import Settings

LIMITS = (
    "maxNamespacesPerTenant",
    "maxNumPartitionsPerPartitionedTopic",
    "maxTenants",
    "subscriptionExpirationTimeMinutes",
)
"""Numbers; 0 and less ask for nothing."""
SWITCHES = (
    "dispatchThrottlingRateRelativeToPublishRate",
    "dispatcherPauseOnAckStatePersistentEnabled",
    "forceDeleteNamespaceAllowed",
    "forceDeleteTenantAllowed",
    "haProxyProtocolEnabled",
    "splitTopicAndPartitionLabelInPrometheus",
    "transactionCoordinatorEnabled",
)
"""They ask for something if they are true."""
NAMES = (
    "advertisedListeners",
    "bindAddresses",
    "brokerEntryPayloadProcessors",
    "brokerInterceptors",
    "entryFilterNames",
    "managedLedgerOffloadDriver",
    "messagingProtocols",
)
"""Of programs and addresses; they ask for something unless they are empty."""


def plan_unserved(settings: Settings) -> tuple[str, ...]:
    """Those of the given settings, sorted; they count as taken."""
    texts = {key: text.strip() for key, text in settings.texts((*LIMITS, *SWITCHES, *NAMES)).items()}
    return tuple(sorted(key for key, text in texts.items() if _asks(key, text)))


def _asks(key: str, text: str) -> bool:
    if key in SWITCHES:
        return text.lower() == "true"
    if key in LIMITS:
        return text.isdigit() and int(text) > 0
    return bool(text)
