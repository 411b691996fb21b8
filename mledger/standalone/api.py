"""What programs start a standalone with: in their own event loop, or in a child process."""

import contextlib
import os
from collections.abc import AsyncIterator, Mapping

from mledger.standalone.addresses import StandaloneAddresses
from mledger.standalone.child import StandaloneProcess

SettingValue = str | int | float | bool


@contextlib.asynccontextmanager
async def start_standalone(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    bookies: int | None = None,
    metadata: str = "",
    port: int = 0,
    http_port: int = 0,
    broker_conf: str | os.PathLike[str] | None = None,
    settings: Mapping[str, SettingValue] | None = None,
    moved: bool = False,
) -> AsyncIterator[StandaloneAddresses]:
    """Run a metadata store, bookies and a broker on the running loop; at exit end them in order, cancelled or not.

    Code that blocks the loop, such as Pulsar's synchronous client, must run in a thread, or next to
    `start_standalone_process`. If the disk fails a write or a sync of a bookie's journal, the process ends at once with
    exit code 74: it is not known what is durable. Logs say why, or stderr in a program that has configured none.

    Args:
        data_dir: where the data is kept. Without one it is in a temporary directory, removed at the end.
        bookies: how many; without a number as many as before, at first one. With one bookie, each entry has one copy.
        metadata: the URL of a metadata store that runs elsewhere, instead of one in `data_dir`.
        port: the port of Pulsar's clients, 0 for a free one.
        http_port: the port of HTTP, 0 for a free one.
        broker_conf: a broker.conf.
        settings: keys of broker.conf; they win over the file.
        moved: the data was moved or restored to `data_dir`, whole; its bookies go on there, if need be at other ports.

    Raises:
        StandaloneError: another process uses the directory, or it cannot be used.
        InvalidSetting, InvalidConfiguration, InvalidMetadataUrl: an argument is wrong; nothing was changed.
        PackageNotInstalled: rocksdict is missing.
        MledgerError: a part cannot start, for example since its port is in use; or, at exit, one ended by itself.
    """
    from mledger.metastore.runtime.packages import check_rocksdb

    check_rocksdb()
    from mledger.standalone.options import StandaloneOptions  # on first use: it brings the servers
    from mledger.standalone.server import open_standalone

    options = StandaloneOptions(
        data_dir="" if data_dir is None else os.fspath(data_dir),
        bookies=bookies,
        metadata=metadata,
        port=port,
        http_port=http_port,
        broker_conf=None if broker_conf is None else os.fspath(broker_conf),
        settings=plan_assignments(settings or {}),
        moved=moved,
    )
    async with open_standalone(options) as server:
        yield server.addresses
        server.check()


def start_standalone_process(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    bookies: int | None = None,
    metadata: str = "",
    port: int = 0,
    http_port: int = 0,
    broker_conf: str | os.PathLike[str] | None = None,
    settings: Mapping[str, SettingValue] | None = None,
    moved: bool = False,
) -> StandaloneProcess:
    """Start a standalone in a child process and wait until it serves; a context manager that ends it.

    The arguments are those of `start_standalone`. On Linux the child ends with this process, however that ends. Other
    users of the machine can read `settings` in its list of processes: keys and tokens belong in the file `broker_conf`.

    Raises:
        StandaloneError: it ended before it served; the message has the last line of its log.
        PackageNotInstalled: rocksdict is missing.
    """
    from mledger.metastore.runtime.packages import check_rocksdb

    check_rocksdb()
    arguments = ["--metadata", metadata] if metadata else []
    arguments += ["--moved"] if moved else []
    if bookies is not None:
        arguments += ["--bookies", str(bookies)]
    if broker_conf is not None:
        arguments += ["--broker-conf", os.path.abspath(broker_conf)]
    for assignment in plan_assignments(settings or {}):
        arguments += ["--set", assignment]
    return StandaloneProcess(None if data_dir is None else os.fspath(data_dir), (port, http_port), arguments)


def plan_assignments(settings: Mapping[str, SettingValue]) -> tuple[str, ...]:
    """Settings as in a file, each KEY=VALUE."""
    return tuple(f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in settings.items())
