"""What every command shares: where the metadata is, how to show results, and a loop to run on."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from mledger.cli.shared.context_file import Contexts, path_of_contexts, read_contexts
from mledger.cli.shared.messages import FORMAT_VARIABLE, messages
from mledger.cli.shared.output import OUTPUT_FORMATS, Output
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.runtime.event_loop import loop_factory
from mledger.metastore.runtime.logs import FORMATS as FORMATS_OF_LOGS

METADATA_VARIABLE = "MLEDGER_METADATA"
CONTEXT_VARIABLE = "MLEDGER_CONTEXT"
TIMEOUT_VARIABLE = "MLEDGER_TIMEOUT"

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])


class CommandTimeout(StoreUnavailable):
    """A command was not done within --timeout."""


@dataclass(frozen=True, slots=True)
class MeantCluster:
    """The cluster that a command is about, and what says so; `by_default`: only the current context does."""

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
        """The metadata URL; click.UsageError when nothing says which."""
        meant = self.meant
        if meant is not None:
            return meant.url
        raise click.UsageError(
            f"no metadata store given: use --metadata zk://host:port, set {METADATA_VARIABLE}, or name a cluster with "
            "`mledger context add` (for a cluster of `mledger up`, `mledger status` says which)"
        )

    @property
    def meant(self) -> MeantCluster | None:
        """The cluster that is meant, None when nothing says which; ContextError for a name that is none."""
        return plan_cluster(self.metadata, self.context, os.environ, lambda: read_contexts(path_of_contexts()))

    @property
    def output(self) -> Output:
        """Where results go."""
        return Output(self.output_format)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` to its end on a loop of its own; CommandTimeout when --timeout ends first."""
        sys.setswitchinterval(0.0005)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(self._bounded(main))

    async def _bounded(self, main: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(self.timeout_s) as bound:
                return await main
        except TimeoutError as error:
            if not bound.expired():
                raise
            raise CommandTimeout(f"not done within --timeout, {self.timeout_s:g} s") from error


def plan_cluster(
    metadata: str | None, context: str | None, environment: Mapping[str, str], read: Callable[[], Contexts]
) -> MeantCluster | None:
    """Which cluster is meant: by --metadata, --context, MLEDGER_METADATA, MLEDGER_CONTEXT, or the current context."""
    if metadata:
        return MeantCluster(metadata, "--metadata")
    if context:
        return MeantCluster(read().url(context), "--context")
    if environment.get(METADATA_VARIABLE):
        return MeantCluster(environment[METADATA_VARIABLE], METADATA_VARIABLE)
    if environment.get(CONTEXT_VARIABLE):
        return MeantCluster(read().url(environment[CONTEXT_VARIABLE]), CONTEXT_VARIABLE)
    contexts = read()
    if contexts.current is None:
        return None
    return MeantCluster(contexts.url(contexts.current), f"context {contexts.current}", by_default=True)


def common_options(command: Command) -> Command:
    """Give `command` the options of every command, which override those given before it."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _say_as(_: click.Context, __: click.Parameter, value: str | None) -> None:
    if value is not None:
        messages.use(value)


def _say_more(_: click.Context, __: click.Parameter, value: int) -> None:
    if value:
        messages.say_more(value)


def _override(name: str) -> Callable[[click.Context, click.Parameter, str | float | None], None]:
    def keep(click_context: click.Context, _: click.Parameter, value: str | float | None) -> None:
        context = click_context.find_object(CommandContext) or CommandContext()
        if value is not None:
            changes: dict[str, Any] = {name: value}
            if name in ("metadata", "context"):  # one of them is meant: the one given last
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
        help=f"The cluster that `mledger context` knows by this name.  [env: {CONTEXT_VARIABLE}]",
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
        type=click.FloatRange(0, min_open=True),
        envvar=TIMEOUT_VARIABLE,
        help=f"Give up after so long, with exit code 5.  [env: {TIMEOUT_VARIABLE}; default: never]",
        callback=_override("timeout_s"),
        expose_value=False,
    ),
    click.option(
        "--verbose",
        "-v",
        count=True,
        help="Log what is done to stderr; -vv: all of it, and where an error is from.",
        callback=_say_more,
        expose_value=False,
        is_eager=True,
    ),
    click.option(
        "--log-format",
        type=click.Choice(FORMATS_OF_LOGS),
        help=f"How to say errors and warnings; json: one object a line.  [env: {FORMAT_VARIABLE}; default: text]",
        callback=_say_as,
        expose_value=False,
        is_eager=True,
    ),
)
