"""What commands that write share: the topic's configuration, and opening it as owner after looking for another (M9)."""

import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

import mledger
from mledger.config import ManagedLedgerConfig, config_from_settings
from mledger.events import EventSink, ignore_events
from mledger.ledger_factory import StepHook, ignore_steps

KEEP_ALL = -1  # of retention: ms, MiB

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to open a topic for writing."""

    config: ManagedLedgerConfig
    take_over: bool


def write_options(command: Command) -> Command:
    """Give `command` the options of a topic's configuration and --take-over; they arrive as one `options`."""

    @functools.wraps(command)
    def gather(*args: Any, **named: Any) -> Any:
        config = _config(
            named.pop("config_file"), named.pop("ensemble_size"), named.pop("write_quorum"), named.pop("ack_quorum")
        )
        return command(*args, options=WriteOptions(config, named.pop("take_over")), **named)

    for option in (
        click.option("--take-over", is_flag=True, help="Open the topic though another owner was seen; it is fenced."),
        click.option("--ack-quorum", type=int, help="Bookies that must hold an entry before it is acknowledged."),
        click.option("--write-quorum", type=int, help="Bookies that each entry is sent to."),
        click.option("--ensemble-size", type=int, help="Bookies that a ledger is spread over."),
        click.option(
            "--config",
            "config_file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A broker.conf to take settings from.",
        ),
    ):
        gather = option(gather)
    return gather  # type: ignore[return-value]


def keeping(options: WriteOptions) -> WriteOptions:
    """The same options, with everything kept: a command that opens a topic for its cursors trims nothing.

    What no cursor needs any more is its next owner's to remove, who knows the topic's retention.
    """
    return replace(options, config=replace(options.config, retention_time_ms=KEEP_ALL, retention_size_in_mb=KEEP_ALL))


@asynccontextmanager
async def opened_topic(
    url: str,
    name: str,
    options: WriteOptions,
    events: EventSink = ignore_events,
    on_step: StepHook = ignore_steps,
) -> AsyncIterator[mledger.ManagedLedger]:
    """The topic, opened as its owner and closed cleanly in the end.

    Raises:
        TopicNotFound: there is no such topic.
        OwnedElsewhere: another owner was seen and did not go within a session time-out.
    """
    async with mledger.open_cluster(url, config=options.config) as cluster:
        topic = await cluster.open_topic(
            name, take_over=options.take_over, create=False, events=events, on_step=on_step
        )
        try:
            yield topic
        finally:
            await topic.close()


def _config(
    path: Path | None, ensemble_size: int | None, write_quorum: int | None, ack_quorum: int | None
) -> ManagedLedgerConfig:
    config = config_from_settings(_settings(path) if path else {})
    return replace(
        config,
        ensemble_size=config.ensemble_size if ensemble_size is None else ensemble_size,
        write_quorum_size=config.write_quorum_size if write_quorum is None else write_quorum,
        ack_quorum_size=config.ack_quorum_size if ack_quorum is None else ack_quorum,
    )


def _settings(path: Path) -> dict[str, str]:
    """The keys and values of a broker.conf."""
    lines = (line.strip() for line in path.read_text().splitlines())
    split = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in split}
