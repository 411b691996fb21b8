"""Errors of a standalone, and what they say."""

from mledger.metastore.errors import MledgerError


class StandaloneError(MledgerError):
    """A standalone cannot start, or cannot go on."""


def in_use(path: str, pid: str) -> StandaloneError:
    """Another process has the directory."""
    owner = f"process {pid}" if pid else "another process"
    return StandaloneError(f"{path}: {owner} runs a standalone on this directory: stop it, or name another directory")


def part_in_use(path: str) -> StandaloneError:
    """A server of its own has a part of the directory."""
    return StandaloneError(f"{path}: another process uses it: stop that, or name another directory")


def metadata_missing(metadata: str, bookie: str) -> StandaloneError:
    """A bookie's data is there, and not the metadata store that knows its ledgers."""
    return StandaloneError(
        f"{metadata} holds no metadata store, but {bookie} has a bookie's data, which only that store leads to: "
        f"restore {metadata}, or give --metadata URL if the store is elsewhere, or name another directory"
    )


def of_a_cluster(path: str) -> StandaloneError:
    """`mledger up` has the directory."""
    return StandaloneError(
        f"{path} holds a cluster of `mledger up`: start that with `mledger up --dir {path}`, or name another directory"
    )


def not_usable(path: str, why: str) -> StandaloneError:
    """The system does not let us use the directory."""
    return StandaloneError(f"{path}: cannot be used: {why}; name another directory")


def part_ended(name: str) -> StandaloneError:
    """A part ended without an error and without being asked to."""
    return StandaloneError(f"{name} ended by itself: see the log, and start again")


def child_ended(code: int, log: str) -> StandaloneError:
    """The child process ended before it served."""
    return StandaloneError(f"the standalone ended with exit code {code} before it served: {log}")


def data_removed(path: str) -> StandaloneError:
    """The process was closed, and its temporary directory is gone."""
    return StandaloneError(f"{path}: the standalone was closed and its data removed: start another")


def not_drained(topic: str, subscription: str, backlog: int | None, seconds: float) -> StandaloneError:
    """A subscription still has a backlog."""
    if backlog is None:
        why = "the broker does not have it and all its partitions open: connect a client, see that the names are right"
    else:
        why = f"it has a backlog of {backlog:,} after {seconds:g} s: see whether its consumers acknowledge"
    return StandaloneError(f"subscription {subscription} of {topic} is not drained: {why}")


def acks_not_durable(topic: str, seconds: float) -> StandaloneError:
    """A bookie or the metadata store does not take a cursor's state."""
    return StandaloneError(f"acknowledgements on {topic} are not durable after {seconds:g} s: see the broker's log")


def no_answer(url: str, error: Exception) -> StandaloneError:
    """The broker cannot be asked."""
    return StandaloneError(f"{url} has no answer: {error}: see whether the broker runs, and its log")


def needs_credentials(url: str, error: Exception) -> StandaloneError:
    """The broker tells its metrics only users that it knows."""
    return StandaloneError(f"{url} needs credentials ({error}): set authenticateMetricsEndpoint=false to wait by it")
