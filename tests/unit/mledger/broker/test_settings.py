"""What a broker takes for settings that nobody gives."""

import pytest

from mledger.broker.settings import plan_buffers

MIB = 1 << 20


@pytest.mark.parametrize(("memory_mb", "buffer_mb"), [(4, 1), (128, 16), (256, 32), (2048, 256), (64 * 1024, 256)])
def test_buffers_take_an_eighth_of_little_memory_each(memory_mb, buffer_mb):
    sizes = plan_buffers(memory_mb * MIB)
    assert sizes == {"publish_buffer_bytes": buffer_mb * MIB, "read_ahead_bytes": buffer_mb * MIB}
