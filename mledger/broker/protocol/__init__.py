"""Pulsar's binary protocol, from bytes and to bytes; no I/O."""
