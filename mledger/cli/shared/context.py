"""The context of every command: its cluster, its output format, and the loop that it runs on."""

import asyncio
import math
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from mledger.cli.shared.context_file import Contexts, path_of_contexts, read_contexts
from mledger.cli.shared.messages import FORMAT_VARIABLE, messages
from mledger.cli.shared.output.results import OUTPUT_FORMATS, Output
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.runtime.logs.loggers import FORMATS as FORMATS_OF_LOGS
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.runtime.processes.event_loop import loop_factory

METADATA_VARIABLE = "MLEDGER_METADATA"
CONTEXT_VARIABLE = "MLEDGER_CONTEXT"
TIMEOUT_VARIABLE = "MLEDGER_TIMEOUT"

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])


class CommandTimeout(StoreUnavailable):
    """The command did not finish within --timeout."""


@dataclass(frozen=True, slots=True)
class SelectedCluster:
    """The selected cluster and what selected it; `by_default`: only the current context."""

    url: str
    said_by: str
    by_default: bool = False


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The options that every command takes."""

    metadata: str | None = None
    context: str | None = None
    output_format: str = "table"
    timeout_s: float | None = None

    @property
    def url(self) -> str:
        """The metadata URL of the selected cluster. Raises click.UsageError if none is selected."""
        selected = self.selected
        if selected is not None:
            return selected.url
        raise click.UsageError(
            f"no metadata store given: use --metadata zk://host:port, set {METADATA_VARIABLE}, or name a cluster with "
            "`mledger context add` (`mledger status` shows the URL of a cluster of `mledger up`)"
        )

    @property
    def selected(self) -> SelectedCluster | None:
        """The selected cluster, or None. Raises ContextError for an unknown context."""
        return plan_cluster(self.metadata, self.context, os.environ, lambda: read_contexts(path_of_contexts()))

    @property
    def output(self) -> Output:
        """The output for results."""
        return Output(self.output_format)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` on its own event loop. Raises CommandTimeout when --timeout expires."""
        sys.setswitchinterval(0.0005)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(self._bounded(main))

    async def _bounded(self, main: Coroutine[Any, Any, T]) -> T:
        try:
            async with TimeLimit(self.timeout_s) as bound:
                return await main
        except TimeoutError as error:
            if not bound.expired():
                raise
            raise CommandTimeout(f"not done within --timeout, {self.timeout_s:g} s") from error


class SecondsType(click.FloatRange):
    """A number of seconds above 0."""

    def __init__(self) -> None:
        super().__init__(0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds; NaN, which is in every range, is none."""
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds


def plan_cluster(
    metadata: str | None, context: str | None, environment: Mapping[str, str], read: Callable[[], Contexts]
) -> SelectedCluster | None:
    """Select the cluster.

    In this order: --metadata, --context, MLEDGER_METADATA, MLEDGER_CONTEXT, the current context.
    """
    if metadata:
        return SelectedCluster(metadata, "--metadata")
    if context:
        return SelectedCluster(read().url(context), "--context")
    if environment.get(METADATA_VARIABLE):
        return SelectedCluster(environment[METADATA_VARIABLE], METADATA_VARIABLE)
    if environment.get(CONTEXT_VARIABLE):
        return SelectedCluster(read().url(environment[CONTEXT_VARIABLE]), CONTEXT_VARIABLE)
    contexts = read()
    if contexts.current is None:
        return None
    return SelectedCluster(contexts.url(contexts.current), f"context {contexts.current}", by_default=True)


def common_options(command: Command) -> Command:
    """Add the options of every command to `command`; they override those given before it."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _set_log_format(_: click.Context, __: click.Parameter, value: str | None) -> None:
    if value is not None:
        messages.use(value)


def _set_verbosity(_: click.Context, __: click.Parameter, value: int) -> None:
    if value:
        messages.set_verbosity(value)


def _override(name: str) -> Callable[[click.Context, click.Parameter, str | float | None], None]:
    def keep(click_context: click.Context, _: click.Parameter, value: str | float | None) -> None:
        context = click_context.find_object(CommandContext) or CommandContext()
        if value is not None:
            changes: dict[str, Any] = {name: value}
            if name in ("metadata", "context"):  # the one given last counts
                changes = {"metadata": None, "context": None} | changes
            context = replace(context, **changes)
        click_context.obj = context

    return keep


_OPTIONS = (
    click.option(
        "--metadata",
        metavar="URL",
        help=f"The cluster's metadata store, zk://host:port,…/chroot.  [env: {METADATA_VARIABLE}]",
        callback=_override("metadata"),
        expose_value=False,
    ),
    click.option(
        "--context",
        metavar="NAME",
        help=f"The cluster, by its name in `mledger context`.  [env: {CONTEXT_VARIABLE}]",
        callback=_override("context"),
        expose_value=False,
    ),
    click.option(
        "--output",
        "-o",
        type=click.Choice(OUTPUT_FORMATS),
        help="How to show results.  [default: table]",
        callback=_override("output_format"),
        expose_value=False,
    ),
    click.option(
        "--timeout",
        metavar="SECONDS",
        type=SecondsType(),
        envvar=TIMEOUT_VARIABLE,
        show_envvar=True,  # so that an error names it
        help="Give up after this time, with exit code 5.  [default: never]",
        callback=_override("timeout_s"),
        expose_value=False,
    ),
    click.option(
        "--verbose",
        "-v",
        count=True,
        help="Log to stderr; -vv: log everything, with the traceback of an error.",
        callback=_set_verbosity,
        expose_value=False,
        is_eager=True,
    ),
    click.option(
        "--log-format",
        type=click.Choice(FORMATS_OF_LOGS),
        help=f"The format of errors and warnings; json: one object per line.  [env: {FORMAT_VARIABLE}; default: text]",
        callback=_set_log_format,
        expose_value=False,
        is_eager=True,
    ),
)
