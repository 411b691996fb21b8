"""Pulsar's messages and the entries that hold them."""
