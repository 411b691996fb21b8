"""The guide to the broker: its programs run in order. Between them, once what is acknowledged is durable, a kill -9."""

import os
import subprocess
import sys

from tests.support.aio import HANG_S
from tests.support.brokers.broker_process import BrokerRun
from tests.support.cli import answer
from tests.support.commands.documents import blocks_of
from tests.support.snapshots.exports import wait_for


def described(url):
    """What the metadata and bookies tell of the cursor, without the broker."""
    return answer("cursors", "describe", "orders", "billing", url=url)


def test_the_programs_of_the_guide_run_before_and_after_a_kill(broker_url, tmp_path) -> None:
    before, after = blocks_of("how-to/broker.md", "python")
    broker = BrokerRun(broker_url, tmp_path / "broker.log").start()
    try:
        for program in (before, after):
            subprocess.run(
                [sys.executable, "-c", program.text],
                env={**os.environ, "SERVICE_URL": broker.service_url},
                timeout=HANG_S,
                check=True,
            )
            if program is before:
                wait_for(lambda: described(broker_url)["mark_delete"].endswith(":0"))
                broker.kill()
                broker.start()
    finally:
        broker.kill()
