"""Fixtures that every test can ask for."""

from tests.support.zookeeper import _new_chroot, metadata_url, shared_zookeeper, zookeeper_server

__all__ = ["_new_chroot", "metadata_url", "shared_zookeeper", "zookeeper_server"]
