"""Spark Connect: whether its server answers, and the code that the server's Python workers run."""

import sys
from tempfile import TemporaryDirectory
from typing import Any

from mledger.snapshot.exports.errors import ExportError
from mledger.snapshot.exports.spark.package_archive import write_archive

SCHEME = "sc://"
ANSWER_S = 10


def check_server(url: str) -> None:
    """Raise ExportError unless a server answers at `url` within `ANSWER_S` seconds. Spark itself tries for ten minutes.

    Also raises what PySpark raises about a malformed URL.
    """
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    channel = DefaultChannelBuilder(url).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=ANSWER_S)
    except grpc.FutureTimeoutError:
        raise ExportError(
            f"no Spark Connect server answers at {without_token(url)} within {ANSWER_S} s: "
            "check the address, and that one runs there"
        ) from None
    finally:
        channel.close()


def without_token(url: str) -> str:
    """The URL without its parameters; one of them may be a token."""
    return url.partition("/;")[0]


def send_package(session: Any) -> None:
    """Have the workers of this session run the mledger of this process, whether or not they have one of their own."""
    with TemporaryDirectory() as directory:
        archive = write_archive(directory)
        try:
            session.addArtifacts(archive, pyfile=True)
        finally:
            while archive in sys.path:  # Spark's client puts it there
                sys.path.remove(archive)
