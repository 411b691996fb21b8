"""`mledger up`, `down` and `status`: a cluster on this machine."""

from pathlib import Path

import click
from click.core import ParameterSource

from mledger.cli.local.cluster_plan import plan_bookie_options, plan_bookies, plan_broker_options, plan_brokers
from mledger.cli.local.cluster_state import ClusterState
from mledger.cli.local.cluster_status import described_cluster, read_cluster_status
from mledger.cli.local.processes import LocalCluster
from mledger.cli.local.termination import interrupted_by_termination
from mledger.cli.shared.bounded_work import within_timeout
from mledger.cli.shared.context import METADATA_VARIABLE, CommandContext, common_options
from mledger.cli.shared.errors import NOT_FOUND, OK, UNAVAILABLE
from mledger.cli.shared.messages import messages
from mledger.cli.shared.output.results import OutputRecord, OutputTable, columns, fields
from mledger.metastore.cluster import layout
from mledger.metastore.runtime.packages import check_rocksdb
from mledger.metastore.runtime.settings import read_settings
from mledger.metastore.url import open_store

DEFAULT_DIRECTORY = Path("mledger-data")
DEFAULT_BOOKIES = 4
DEFAULT_BROKERS = 1
MOST_BROKERS = 16

directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DIRECTORY,
    show_default=True,
    help="The directory of the cluster's data.",
)


@click.command(epilog="Example: mledger up --metadata rocksdb:metadata --bookies 3")
@directory_option
@click.option("--bookies", type=click.IntRange(1, 64), help="The number of bookies.  [default: as before, at first 4]")
@click.option(
    "--zookeeper-port", type=click.IntRange(0, 65535), default=0, help="0: the same port as before, or a free one."
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A bookkeeper.conf to take the bookies' settings from.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the bookies; repeatable; overrides --config.",
)
@click.option(
    "--brokers",
    type=click.IntRange(1, MOST_BROKERS),
    help="The number of brokers for Pulsar's clients.  [default: as before, at first 1]",
)
@click.option("--no-broker", is_flag=True, help="Start no broker.")
@click.option(
    "--broker-port",
    type=click.IntRange(0, 65535 - MOST_BROKERS),
    default=0,
    help="Port of broker-1; the others get those after it. 0: the same ports as before, or free ones.",
)
@click.option(
    "--broker-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A broker.conf to take the brokers' settings from.",
)
@click.option(
    "--broker-set",
    "broker_assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the brokers; repeatable; overrides --broker-config.",
)
@click.option(
    "--metrics", is_flag=True, help="Serve metrics and health of each bookie on a free port; brokers always do."
)
@common_options
@click.pass_obj
@within_timeout
def up(
    context: CommandContext,
    directory: Path,
    bookies: int | None,
    zookeeper_port: int,
    config_file: Path | None,
    assignments: tuple[str, ...],
    brokers: int | None,
    no_broker: bool,
    broker_port: int,
    broker_config: Path | None,
    broker_assignments: tuple[str, ...],
    metrics: bool,
) -> None:
    """Start a metadata store, bookies and a broker on this machine; leave running ones alone.

    The metadata is in a real ZooKeeper unless --metadata names another store: `rocksdb:DIR` needs
    no Java, `memory:` lasts as long as its process, `zk://host:port` is an ensemble that runs
    already. Everything binds to 127.0.0.1 and runs until `mledger down`. Settings apply to the
    bookies and brokers that this command starts; `up` chooses ids, ports and directories.
    """
    if no_broker and (brokers or broker_port or broker_config or broker_assignments):
        raise click.UsageError("--no-broker excludes --brokers, --broker-port, --broker-config and --broker-set")
    output = context.output
    options = plan_bookie_options(config_file, assignments, metrics, messages.log_format)
    read_settings(
        None if config_file is None else str(config_file), assignments
    )  # reject bad settings before anything starts
    copies_given = _check_broker_settings(broker_config, broker_assignments)
    check_rocksdb()
    cluster = LocalCluster(directory)
    with interrupted_by_termination(), cluster.locked(), output.progress("starting", "processes") as progress:
        state = cluster.end_unfinished(cluster.load() or ClusterState())
        wanted = max(bookies or (0 if state.bookies else DEFAULT_BOOKIES), len(state.bookies))
        wanted_brokers = 0 if no_broker else max(brokers or 0, len(state.brokers)) or DEFAULT_BROKERS
        task = progress.add_task("", total=wanted + wanted_brokers + 1)
        # only an option counts: a variable left in the shell must not decide where a cluster is
        state = cluster.start_metadata(state, context.metadata, zookeeper_port, messages.log_format)
        progress.advance(task)
        context.run(_initialize(state.url))
        if no_broker:
            state = cluster.forget_stopped_brokers(state)
        broker_options = plan_broker_options(
            broker_config,
            broker_assignments,
            messages.log_format,
            single_copy=wanted == 1 and not copies_given,
        )
        planned = plan_brokers(state, wanted_brokers, broker_port, broker_options)  # first: it has most to load
        planned += plan_bookies(state, cluster.directory, wanted, options)
        state = cluster.start_servers(state, planned)
        progress.update(task, completed=wanted + wanted_brokers + 1)
    with messages.made(f"the processes of {directory} were started"):
        output.record(_describe(state, directory, json=output.for_programs))
        output.line(f"\nexport {METADATA_VARIABLE}={state.url}")


@click.command(epilog="Example: mledger down")
@directory_option
@common_options
@click.pass_obj
@within_timeout
def down(context: CommandContext, directory: Path) -> None:
    """Stop the processes that `mledger up` started; the data stays."""
    cluster = LocalCluster(directory)
    state = cluster.load()
    if state is None:
        raise ClusterNotFound(directory)
    with cluster.locked():
        stopped = cluster.stop(state)
    with messages.made(f"the processes of {directory} were stopped"):
        if context.output.for_programs:
            context.output.record(OutputRecord(fields(directory=str(cluster.directory), stopped=tuple(stopped))))
        else:
            context.output.line(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")


@click.command(epilog="Example: mledger status --context prod")
@directory_option
@click.option("--url", is_flag=True, help="Only the metadata URL, for MLEDGER_METADATA.")
@common_options
@click.pass_obj
@click.pass_context
def status(click_context: click.Context, context: CommandContext, directory: Path, url: bool) -> None:
    """Show the selected cluster and whether it serves; exit code 5 if it does not.

    The cluster is that of --dir if given; else the one selected by an option, the environment or
    the current context; else the one in mledger-data in the current directory. For a cluster of
    `mledger up`, show its processes; for any other, its metadata store, bookies and brokers.
    """
    here = click_context.get_parameter_source("directory") is not ParameterSource.DEFAULT
    selected = None if here else context.selected
    state = LocalCluster(directory).load()
    if selected is not None and (state is None or state.url != selected.url):
        if url:
            click.echo(selected.url)
            return
        found = context.run(read_cluster_status(selected.url))
        context.output.record(described_cluster(selected, found))
        click_context.exit(OK if found.serves else UNAVAILABLE)
    if state is None:
        raise ClusterNotFound(directory)
    if url:
        click.echo(state.url)
    else:
        context.output.record(_describe(state, directory, json=context.output.for_programs))
    click_context.exit(OK if all(part.process is not None for part in state.parts) else UNAVAILABLE)


def _describe(state: ClusterState, directory: Path, *, json: bool) -> OutputRecord:
    """The cluster and its processes; addresses of metrics only if bookies have any, or for programs."""
    shown: tuple[str, ...] = ("name", "address", "state", "pid", "metrics")
    if not json and not any(part.metrics for part in state.bookies):
        shown = shown[:-1]
    rows = []
    for part in state.parts:
        process = part.process
        state_now, pid = ("running", process.pid) if process else ("stopped", None)
        rows.append((part.name, part.address, state_now, pid, part.metrics or None)[: len(shown)])
    facts = fields(metadata=state.url, directory=str(directory.absolute()))
    if json or state.service_url:
        facts += fields(service_url=state.service_url or None)
    return OutputRecord(facts, (OutputTable("processes", columns(*shown), tuple(rows)),))


class ClusterNotFound(click.ClickException):
    """The directory has no cluster."""

    exit_code = NOT_FOUND

    def __init__(self, directory: Path) -> None:
        super().__init__(f"no cluster in {directory}: start one with `mledger up --dir {directory}`")


def _check_broker_settings(config_file: Path | None, assignments: tuple[str, ...]) -> bool:
    """Reject bad settings of brokers; return whether they say how many copies new ledgers have."""
    if config_file is None and not assignments:
        return False
    from mledger.broker.settings import broker_settings  # only with such settings: `up` must start fast
    from mledger.settings import owner_settings

    settings = read_settings(None if config_file is None else str(config_file), assignments)
    broker_settings(settings)
    return owner_settings(settings).quorums_given


async def _initialize(url: str) -> None:
    async with await open_store(url) as store:
        await layout.initialize(store)
