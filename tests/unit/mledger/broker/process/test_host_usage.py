"""How busy a machine is, from what Linux says of it."""

import os

import pytest

from mledger.broker.lookup.broker_records import NO_USAGE, ResourceUsage
from mledger.broker.process import host_usage
from mledger.broker.process.host_usage import HostMeter, HostSample, plan_usage, read_sample
from tests.support.clock import Clock

TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1 << 20
DEVICES = """Inter-|   Receive            |  Transmit
 face |bytes    packets errs |bytes    packets errs
    lo: 900 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0
  eth0: 1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0
  eth1: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0
 wlan0: 7 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0
"""
SPEEDS = {"eth0": "1000\n", "eth1": "100\n", "wlan0": "-1\n"}


@pytest.fixture
def root(tmp_path):
    """The directory of a system that has /proc and /sys."""
    for directory in ("proc/self", "proc/net", *(f"sys/class/net/{name}" for name in SPEEDS)):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "proc/net/dev").write_text(DEVICES)
    (tmp_path / "proc/self/statm").write_text("500 100 7 1 0 9 0\n")
    for name, speed in SPEEDS.items():
        (tmp_path / f"sys/class/net/{name}/speed").write_text(speed)
    busy_for(tmp_path, 3)
    return tmp_path


def busy_for(root, seconds):
    """Say that the processors were busy for so many seconds."""
    ticks = seconds * TICKS
    (root / "proc/stat").write_text(f"cpu  {ticks} 0 0 9999 7777 0 0 0 5 5\ncpu0 1 2\ncpu1 1 2\nintr 5 6\n")


def test_a_sample_counts_processors_and_interfaces_whose_speed_is_known(root):
    found = read_sample(5, root)
    assert (found.at_ms, found.busy_s, found.processors) == (5, 3, 2)
    assert (found.received, found.sent, found.link_kbit) == (1010, 2020, 1_100_000)
    assert found.resident == 100 * os.sysconf("SC_PAGE_SIZE")


def test_usage_is_what_was_counted_between_two_samples():
    before = HostSample(1000, 10.0, 4, 0, 5000, 8000, 64 * MIB)
    now = HostSample(3000, 13.0, 4, 1000, 9000, 8000, 32 * MIB)
    found = plan_usage(before, now, 256 * MIB)
    assert found.cpu == ResourceUsage(150, 400)
    assert found.memory == ResourceUsage(32, 256)
    assert (found.bandwidth_in, found.bandwidth_out) == (ResourceUsage(4, 8000), ResourceUsage(16, 8000))
    assert found.highest == 0.375


def test_counters_that_began_anew_are_no_usage():
    found = plan_usage(HostSample(0, 9.0, 1, 900, 900, 1), HostSample(1000, 1.0, 1, 1, 1, 1), MIB)
    assert (found.cpu.usage, found.bandwidth_in.usage, found.bandwidth_out.usage) == (0, 0, 0)


def test_where_the_system_says_nothing_nothing_is_known(tmp_path):
    assert HostMeter(tmp_path).usage() == NO_USAGE


def test_usage_is_measured_over_a_second_at_least(root, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(host_usage, "steady_ms", clock)
    meter = HostMeter(root)
    busy_for(root, 4)
    clock.ms += 999
    assert meter.usage().cpu == ResourceUsage(0, 200)
    clock.ms += 1
    assert meter.usage().cpu == ResourceUsage(100, 200)
    busy_for(root, 5)
    clock.ms += 500
    assert meter.usage().cpu == ResourceUsage(100, 200)
