"""A server that speaks S3 on loopback, as a process of its own: moto, whose buckets live in memory."""

import re
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest

from tests.support.aio import HANG_S
from tests.support.snapshots.exports import wait_for

BUCKET = "metadata"
UNLIMITED = "inf"


@dataclass(frozen=True)
class S3Server:
    """The server at `endpoint`, with a client and a bucket."""

    endpoint: str
    client: object

    def put(self, directory: Path, prefix: str) -> str:
        """Put a directory's files under names that begin with `prefix`, and return their URI."""
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                name = f"{prefix}/{path.relative_to(directory).as_posix()}"
                self.client.put_object(Bucket=BUCKET, Key=name, Body=path.read_bytes())
        return f"s3://{BUCKET}/{prefix}"

    def written(self, prefix: str) -> dict[str, object]:
        """When each object was written, by the rest of its name after `prefix`.

        Leaves out the empty objects that stand for directories.
        """
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{prefix}/")
        found = [each for page in pages for each in page.get("Contents", ()) if each["Key"][-1] != "/"]
        return {each["Key"].removeprefix(f"{prefix}/"): each["LastModified"] for each in found}

    def deny_after(self, requests: int | str) -> None:
        """Let this many requests pass, whoever makes them, and then refuse all keys."""
        asked = urllib.request.Request(
            f"{self.endpoint}/moto-api/reset-auth", str(requests).encode(), {"Content-Type": "text/plain"}
        )
        with urllib.request.urlopen(asked, timeout=HANG_S) as answer:
            assert answer.status == 200


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory):
    """A server of this test module."""
    log = tmp_path_factory.mktemp("s3") / "log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with open(log, "w") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)

    def endpoint():
        assert process.poll() is None, log.read_text()
        return re.search(r"Running on (http://127\.0\.0\.1:\d+)", log.read_text())

    try:
        found = wait_for(endpoint)[1]
        keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
        client = boto3.client("s3", endpoint_url=found, region_name="us-east-1", **keys)
        client.create_bucket(Bucket=BUCKET)
        yield S3Server(found, client)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def s3(s3_server, monkeypatch, tmp_path):
    """The server, which the environment names to every reader of `s3://`."""
    settings = {
        "AWS_ENDPOINT_URL": s3_server.endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    s3_server.deny_after(UNLIMITED)
    return s3_server
