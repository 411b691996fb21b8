"""What every command shares: where the metadata is, how to show results, and a loop to run on."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from mledger.cli.shared.messages import FORMAT_VARIABLE, messages
from mledger.cli.shared.output import OUTPUT_FORMATS, Output
from mledger.metastore.runtime.logs import FORMATS as FORMATS_OF_LOGS

METADATA_VARIABLE = "MLEDGER_METADATA"

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Session:
    """The options that every command takes."""

    metadata: str | None = None
    output_format: str = "table"
    from_environment: bool = False  # the metadata URL

    @property
    def url(self) -> str:
        """The metadata URL; click.UsageError when none was given."""
        if self.metadata:
            return self.metadata
        raise click.UsageError(
            f"no metadata store given: use --metadata zk://host:port or set {METADATA_VARIABLE} "
            "(for a cluster of `mledger up`, `mledger status` says which)"
        )

    @property
    def given_metadata(self) -> str | None:
        """The metadata URL if an option gave it: a variable left in the shell does not decide where a cluster is."""
        return None if self.from_environment else self.metadata

    @property
    def output(self) -> Output:
        """Where results go."""
        return Output(self.output_format)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` to its end on a loop of its own."""
        sys.setswitchinterval(0.0005)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(main)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop's loop where it installs, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop  # type: ignore[no-any-return]


def session_options(command: Command) -> Command:
    """Give `command` --metadata, --output and --log-format, which override those given before it."""
    command = click.option(
        "--log-format",
        type=click.Choice(FORMATS_OF_LOGS),
        help=f"How to say errors and warnings; json: one object a line.  [env: {FORMAT_VARIABLE}; default: text]",
        callback=_say_as,
        expose_value=False,
        is_eager=True,
    )(command)
    command = click.option(
        "--output",
        "-o",
        type=click.Choice(OUTPUT_FORMATS),
        help="How to show results.  [default: table]",
        callback=_override("output_format"),
        expose_value=False,
    )(command)
    return click.option(
        "--metadata",
        metavar="URL",
        help=f"The cluster's metadata store, zk://host:port,…/chroot.  [env: {METADATA_VARIABLE}]",
        callback=_override("metadata"),
        expose_value=False,
    )(command)


def _say_as(_: click.Context, __: click.Parameter, value: str | None) -> None:
    if value is not None:
        messages.use(value)


def _override(name: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def keep(context: click.Context, _: click.Parameter, value: str | None) -> None:
        session = context.find_object(Session) or Session()
        if value is not None:
            changes: dict[str, Any] = {name: value} | ({"from_environment": False} if name == "metadata" else {})
            session = replace(session, **changes)
        context.obj = session

    return keep
