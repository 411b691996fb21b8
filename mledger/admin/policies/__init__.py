"""Policies of namespaces and topics: read from the metadata store and from Pulsar's policy events."""
