"""The functions by which programs start a standalone."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

import mledger
from tests.support.aio import run


def test_in_the_running_loop_with_the_official_client_in_a_thread(client_of):
    def use(service_url):
        with client_of(service_url) as client:
            consumer = client.subscribe("orders")
            client.publish("orders", b"0")
            return client.receive(consumer, 1)

    async def main():
        async with mledger.start_standalone() as pulsar:
            assert await asyncio.to_thread(use, pulsar.service_url) == [b"0"]
            assert pulsar.admin_url.startswith("http://127.0.0.1:")
            return pulsar.data_dir

    assert not os.path.exists(run(main()))


def test_a_named_directory_keeps_its_data(tmp_path, client_of):
    def subscribe(service_url):
        with client_of(service_url) as client:
            client.subscribe("orders").close()
            client.publish("orders", b"0")

    def receive(service_url):
        with client_of(service_url) as client:
            return client.receive(client.subscribe("orders"), 1)

    async def main():
        async with mledger.start_standalone(tmp_path, bookies=1) as pulsar:
            await asyncio.to_thread(subscribe, pulsar.service_url)
        async with mledger.start_standalone(tmp_path) as pulsar:
            return await asyncio.to_thread(receive, pulsar.service_url)

    assert run(main()) == [b"0"]


def test_settings_are_the_broker_s():
    async def main():
        async with mledger.start_standalone(settings={"managedLedgerDefaultAckQuorum": 9}):
            pass

    with pytest.raises(mledger.InvalidConfiguration, match="ack quorum 9"):
        run(main())


FORKING_PROGRAM = """
import asyncio, os, signal, sys, mledger

async def main():
    async with mledger.start_standalone(sys.argv[1]) as pulsar:
        if os.fork() == 0:  # by now it has given up what it was forked with
            print(pulsar.service_url.rpartition(":")[2], os.getpid(), flush=True)
            signal.pause()
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_worker_that_the_program_forked_keeps_neither_directory_nor_port_once_it_is_killed(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", FORKING_PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        port, worker = map(int, program.stdout.readline().split())
        program.kill()

    async def main():
        async with mledger.start_standalone(tmp_path, port=port) as pulsar:
            return pulsar.service_url

    assert run(main()) == f"pulsar://127.0.0.1:{port}"
    os.kill(worker, signal.SIGKILL)
