"""A benchmark starts only if the disk has room for what it writes."""

import pytest

from bench.rig.cluster import NotEnoughDisk, require_disk


def test_a_run_that_does_not_fit_the_disk_is_refused():
    with pytest.raises(NotEnoughDisk, match="TMPDIR"):
        require_disk(1 << 60)
