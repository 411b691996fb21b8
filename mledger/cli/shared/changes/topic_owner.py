"""Opening a topic as its owner, for commands that write: its options, and the check for owners (M9)."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import structs

import mledger
from mledger.admin.policies.topic_policies import PolicyReader
from mledger.bookie.client.config import ClientConfig
from mledger.cli.shared.changes import change_command
from mledger.cli.shared.changes.change_command import CommandChange
from mledger.cli.shared.context import CommandContext
from mledger.cli.shared.messages import messages
from mledger.cli.shared.read_only import ReadOnlyCluster, report_waiting
from mledger.config import ManagedLedgerConfig
from mledger.errors import TopicChanged
from mledger.events import EventSink, ignore_events
from mledger.ledgers.ledger_factory import StepHook, ignore_steps
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.paths import TopicName, managed_ledger_path
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.session import SESSION_TIMEOUT_S
from mledger.settings import OwnerSettings, read_owner_settings

QUORUMS = {
    "ensemble_size": "ensemble_size",
    "write_quorum_size": "write_quorum",
    "ack_quorum_size": "ack_quorum",
}
"""Fields of a topic's configuration that have their own option."""

ADD_TIMEOUT_S = 10.0
"""How long a command waits for a bookie to acknowledge an entry, unless settings say so."""

CLOSED_WITHIN_S = 5.0
"""How long an interrupted command waits for a topic to close."""

log = get_logger(__name__)

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to open a topic for writing."""

    config: ManagedLedgerConfig
    take_over: bool
    client: ClientConfig = ClientConfig()  # noqa: RUF009 - frozen
    session_timeout: float = SESSION_TIMEOUT_S
    retention_given: bool = False  # the configuration has the default retention of the cluster's brokers
    cluster_quorums: bool = False  # use the cluster's quorums for the topic, not the configuration's

    @property
    def of_change(self) -> dict[str, Any]:
        """What `run_change` takes of them."""
        return {
            "take_over": self.take_over,
            "session_timeout": self.session_timeout,
            "tls": self.client.tls,
        }

    def policy_reader(self, cluster: ReadOnlyCluster) -> PolicyReader:
        """Reads the policies that count with these settings."""
        config = self.config
        return PolicyReader(cluster.metadata, cluster.bookies, config.password, topic_level=config.topic_level_policies)

    @asynccontextmanager
    async def open_cluster(self, url: str) -> AsyncIterator[mledger.Cluster]:
        """The cluster at `url`, with these options. Reports on stderr which bookie is awaited."""
        async with mledger.open_cluster(
            url,
            config=self.config,
            cluster_quorums=self.cluster_quorums,
            client=self.client,
            session_timeout=self.session_timeout,
        ) as cluster:
            cluster.bookkeeper.on_waiting = report_waiting()
            yield cluster


def write_options(command: Command) -> Command:
    """Add the options of a topic's configuration and --take-over to `command`, as `options`."""

    @functools.wraps(command)
    def gather(*args: Any, **named: Any) -> Any:
        settings = _settings(named.pop("config_file"), named.pop("assignments"))
        quorums = {name: value for name, option in QUORUMS.items() if (value := named.pop(option)) is not None}
        options = WriteOptions(
            replace(settings.config, **quorums),
            named.pop("take_over"),
            _impatient(settings),
            settings.session_timeout,
            retention_given=settings.retention_given,
            cluster_quorums=not quorums and not settings.quorums_given,
        )
        return command(*args, options=options, **named)

    for option in (
        click.option("--take-over", is_flag=True, help="Open the topic although it has an owner, and fence the owner."),
        click.option("--ack-quorum", type=int, help="Bookies that must hold an entry before it is acknowledged."),
        click.option("--write-quorum", type=int, help="Bookies that each entry is sent to."),
        click.option("--ensemble-size", type=int, help="Bookies that a ledger is spread over."),
        click.option(
            "--config",
            "config_file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A broker.conf to take settings from.",
        ),
        click.option(
            "--set",
            "assignments",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting, by its key in broker.conf; repeatable; overrides --config.",
        ),
    ):
        gather = option(gather)
    return gather  # type: ignore[return-value]


@asynccontextmanager
async def opened_topic(
    url: str,
    name: str,
    options: WriteOptions,
    events: EventSink = ignore_events,
    on_step: StepHook = ignore_steps,
    *,
    planned_at: int | None = None,
) -> AsyncIterator[mledger.ManagedLedger]:
    """Open the topic as its owner, and close it cleanly at the end.

    Nothing is trimmed unless `trim` or `truncate` is called: that is left to the next owner.
    `planned_at` is the version of the topic's record on which the change was planned; a live owner
    that is taken over may have written it since.

    Raises:
        TopicNotFound: the topic does not exist.
        OwnedElsewhere: another owner did not go within a session time-out.
        TopicChanged: there was another owner since `planned_at`; the topic is only opened and closed.
    """
    async with options.open_cluster(url) as cluster:
        opening = cluster.open_topic(
            name, take_over=options.take_over, create=False, trim=False, events=events, on_step=on_step
        )
        async with closing(await opening) as topic:
            if not options.take_over:
                check_planned(topic, planned_at)
            yield topic


@asynccontextmanager
async def planned_topic(
    url: str,
    managed_ledger: str,
    options: WriteOptions,
    change: CommandChange,
    planned_at: Mapping[str, int],
    events: EventSink = ignore_events,
) -> AsyncIterator[mledger.ManagedLedger]:
    """The topic opened by `opened_topic` for `change`, which was planned on the versions `planned_at`."""
    name = str(TopicName.of_managed_ledger(managed_ledger))
    version = planned_at.get(managed_ledger)

    def step(what: str) -> None:
        change.begun.add(managed_ledger)  # not before: the opening may wait for another owner to go
        change_command.on_step(what)

    async with opened_topic(url, name, options, events, step, planned_at=version) as topic:
        change.touch(managed_ledger)
        yield topic
    change.left_at[managed_ledger] = topic.metadata_version


def check_planned(topic: mledger.ManagedLedger, planned_at: int | None) -> None:
    """Raise TopicChanged unless the opening's own write is the only one of the topic's record since `planned_at`."""
    if planned_at is not None and topic.metadata_version != planned_at + 1:
        raise TopicChanged(
            f"{topic.name} was opened by another owner since the plan was made: run the command again",
            managed_ledger_path(topic.name),
        )


def check_not_back(cursor: mledger.Cursor, planned: Position) -> None:
    """Raise TopicChanged if a live owner has moved the cursor back since its mark-delete was `planned`."""
    if cursor.mark_delete < planned:
        raise TopicChanged(
            f"cursor {cursor.name} went back to {cursor.mark_delete} since the plan was made: run the command again",
            cursor.path,
        )


@asynccontextmanager
async def closing(topic: mledger.ManagedLedger) -> AsyncIterator[mledger.ManagedLedger]:
    """Close the topic cleanly at the end; if the command is interrupted or times out, only as long as that is quick.

    A clean close waits for bookies as long as what was given up. A topic that is abandoned is
    recovered by its next owner.
    """
    try:
        try:
            yield topic
        except asyncio.CancelledError:
            raise
        except BaseException:
            await topic.close()
            raise
        else:
            await topic.close()
    except asyncio.CancelledError:
        with suppress(TimeoutError, MledgerError):
            async with TimeLimit(CLOSED_WITHIN_S):
                await topic.close()
        await topic.abandon()
        raise


def _impatient(settings: OwnerSettings) -> ClientConfig:
    client = settings.client
    return client if settings.answer_time_given else structs.replace(client, add_timeout_s=ADD_TIMEOUT_S)


def _settings(path: Path | None, assignments: Sequence[str]) -> OwnerSettings:
    """The settings of --config and --set; warns about unknown keys.

    The metadata store of the settings is used if no option or variable selects a cluster.
    """
    found = read_owner_settings(None if path is None else str(path), assignments)
    if found.unknown:
        messages.warning(f"unknown settings: {', '.join(found.unknown)}")
    if found.not_honoured:
        messages.warning(
            f"settings without effect, since only racks decide bookie placement: {', '.join(found.not_honoured)}"
        )
    if found.without_effect:
        log.debug("settings_without_effect", keys=found.without_effect)
    click_context = click.get_current_context()
    context = click_context.find_object(CommandContext) or CommandContext()
    selected = context.selected
    if found.url and (selected is None or selected.by_default):
        click_context.obj = replace(context, metadata=found.url)
    return found
