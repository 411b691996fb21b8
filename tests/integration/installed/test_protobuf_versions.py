"""Records and frames with the oldest protobuf that the distribution allows, and with one of each later line."""

import os
import subprocess
import sys

import pytest

from tests.support.aio import HANG_S
from tests.support.cli import ROOT

VERSIONS = ("5.29.5", "6.33.1")
TESTS = (
    "tests/unit/mledger/metastore/records/test_codec_golden.py",
    "tests/unit/mledger/metastore/records/test_golden_znodes.py",
    "tests/unit/mledger/messages/test_pulsar_message.py",
)


@pytest.mark.parametrize("version", VERSIONS)
def test_golden_records_are_read_and_written(version, tmp_path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary", ":all:"]
    fetched = subprocess.run(
        [*pip, "--no-deps", "--target", str(tmp_path), f"protobuf=={version}"],
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    if fetched.returncode != 0:
        pytest.skip(f"protobuf {version} is not to be had here: {fetched.stderr.strip().splitlines()[-1]}")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment["PYTHONPATH"] = str(tmp_path)
    told = subprocess.run(
        [sys.executable, "-c", "import google.protobuf as found; print(found.__version__)"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert told.stdout.strip() == version
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stdout
