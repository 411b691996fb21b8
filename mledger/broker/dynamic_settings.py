"""Settings that change while the broker runs: those in `/admin/configuration`, a JSON object of texts, as in Pulsar.

They come before broker.conf and `--set`, at every broker of the cluster. One that is removed is again as it was given
at the start. A node or a value that cannot be read changes nothing.
"""

import asyncio
import dataclasses
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mledger.broker.settings import KEYS, BrokerSettings, broker_settings
from mledger.metastore.errors import InvalidSetting, MetadataError
from mledger.metastore.node_follower import follow_node
from mledger.metastore.runtime.logs.failed_rounds import OutlivedRound, log_failure
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.settings import read_settings
from mledger.metastore.store import MetadataReader

log = get_logger(__name__)

CONFIGURATION = "/admin/configuration"
DYNAMIC_KEYS = (
    "allowAutoSubscriptionCreation",
    "allowAutoTopicCreation",
    "allowAutoTopicCreationType",
    "brokerDeleteInactiveTopicsEnabled",
    "brokerDeleteInactiveTopicsFrequencySeconds",
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds",
    "brokerDeleteInactiveTopicsMode",
    "brokerPublisherThrottlingMaxByteRate",
    "brokerPublisherThrottlingMaxMessageRate",
    "defaultNumPartitions",
    "dispatchThrottlingRatePerSubscriptionInByte",
    "dispatchThrottlingRatePerSubscriptionInMsg",
    "dispatchThrottlingRatePerTopicInByte",
    "dispatchThrottlingRatePerTopicInMsg",
    "isAllowAutoUpdateSchemaEnabled",
    "maxPublishRatePerTopicInBytes",
    "maxPublishRatePerTopicInMessages",
    "maxTopicsPerNamespace",
    "subscribeRatePeriodPerConsumerInSecond",
    "subscribeThrottlingRatePerConsumer",
    "subscriptionTypesEnabled",
)
"""What Pulsar's brokers change while they run, and this one can, too."""
_FIELDS = {each.key: each.field for each in KEYS if each.key in DYNAMIC_KEYS}


def plan_dynamic(settings: BrokerSettings, given: Mapping[str, Any]) -> BrokerSettings:
    """The settings with those of `given` that can change. InvalidSetting for a value that is none."""
    texts = {key: text for key, text in given.items() if key in _FIELDS and isinstance(text, str) and text.strip()}
    if not texts:
        return settings
    read = broker_settings(read_settings(None, [f"{key}={text}" for key, text in texts.items()]))
    return dataclasses.replace(settings, **{_FIELDS[key]: getattr(read, _FIELDS[key]) for key in texts})


class DynamicSettings:
    """The settings in force: those that the broker was started with, changed by what is stored in `store`."""

    def __init__(self, store: MetadataReader, settings: BrokerSettings) -> None:
        self._store, self._started_with, self._now = store, settings, settings
        self._listeners: list[Callable[[BrokerSettings], None]] = []
        self._task: asyncio.Task[None] | None = None

    def follow(self, listener: Callable[[BrokerSettings], None]) -> None:
        """Call `listener` with all settings whenever one has changed."""
        self._listeners.append(listener)

    async def start(self) -> None:
        """Read what is stored, and follow it until `stop`."""
        await self.read_if_possible()
        self._task = asyncio.get_running_loop().create_task(
            follow_node(self._store, CONFIGURATION, self.read, self._not_watched)
        )

    def stop(self) -> None:
        """Follow no changes any more."""
        if self._task is not None:
            self._task.cancel()

    async def read_if_possible(self) -> None:
        """Take over what is stored now; if that cannot be read, log it, and leave it to the next look."""
        try:
            await self.read()
        except MetadataError as error:
            log.warning("dynamic_settings_unknown", path=CONFIGURATION, error=error)

    async def read(self) -> None:
        """Take over what is stored now. MetadataError."""
        (node,) = await self._store.get_many([CONFIGURATION])
        self._take(b"" if node is None else node.data)

    def _take(self, data: bytes) -> None:
        try:
            given = json.loads(data) if data else {}
            if not isinstance(given, dict):
                raise ValueError("it holds no JSON object")
        except (ValueError, RecursionError) as error:
            log.warning("dynamic_settings_invalid", path=CONFIGURATION, error=error)
            return
        settings = self._started_with
        for key, text in given.items():  # one that is not valid does not hide the others
            try:
                settings = plan_dynamic(settings, {key: text})
            except InvalidSetting as error:
                log.warning("dynamic_setting_invalid", path=CONFIGURATION, key=key, error=error)
        if settings == self._now:
            return
        self._now = settings
        log.info("settings_changed", path=CONFIGURATION)
        for listener in self._listeners:
            with OutlivedRound(partial(log_failure, log, "settings_not_taken_over", path=CONFIGURATION)):
                listener(settings)

    @staticmethod
    def _not_watched(error: BaseException) -> None:
        log_failure(log, "dynamic_settings_not_watched", error, path=CONFIGURATION)
