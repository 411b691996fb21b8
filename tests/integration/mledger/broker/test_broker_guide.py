"""The guide to the broker: its programs run in order, with a kill -9 between them."""

import os
import subprocess
import sys

from tests.support.aio import HANG_S
from tests.support.brokers.broker_process import BrokerRun
from tests.support.commands.documents import blocks_of


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
                broker.kill()
                broker.start()
    finally:
        broker.kill()
