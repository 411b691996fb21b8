"""Pulsar's mapping of bookies to racks."""

import pytest

from mledger.metastore.cluster.racks import decode_racks
from mledger.metastore.errors import RecordError


def test_racks_are_read_by_group():
    data = b'{"default": {"a:3181": {"rack": "/r/1", "hostname": "a"}, "b:3181": {"hostname": "b"}}, "other": {}}'
    assert decode_racks(data) == {"default": {"a:3181": "/r/1", "b:3181": None}, "other": {}}


@pytest.mark.parametrize("data", [b"", b" \n", b"{}"])
def test_an_empty_mapping_has_no_groups(data):
    assert decode_racks(data) == {}


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"default": []}', b"\xff", b"[" * 10_000])
def test_an_unreadable_mapping_is_an_error_that_names_its_path(data):
    with pytest.raises(RecordError, match="racks at /bookies cannot be read"):
        decode_racks(data)
