"""What a broker takes for settings that nobody gives."""

import pytest

from mledger.broker.settings import broker_settings, plan_buffers
from mledger.metastore.runtime.settings import read_settings

MIB = 1 << 20


@pytest.mark.parametrize(("memory_mb", "buffer_mb"), [(4, 1), (128, 16), (256, 32), (2048, 256), (64 * 1024, 256)])
def test_buffers_take_an_eighth_of_little_memory_each(memory_mb, buffer_mb):
    sizes = plan_buffers(memory_mb * MIB)
    assert sizes == {"publish_buffer_bytes": buffer_mb * MIB, "read_ahead_bytes": buffer_mb * MIB}


@pytest.mark.parametrize(
    ("gibibytes", "size", "expected"),
    [("-1", "7", 7), ("0", "7", 7), ("0.5", "7", 512 * MIB), ("10", "-1", 10240 * MIB)],
)
def test_a_quota_in_gibibytes_comes_before_one_in_bytes(gibibytes, size, expected):
    given = [f"backlogQuotaDefaultLimitGB={gibibytes}", f"backlogQuotaDefaultLimitBytes={size}"]
    assert broker_settings(read_settings(None, given)).backlog_quota_bytes == expected
