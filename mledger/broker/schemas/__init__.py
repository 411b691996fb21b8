"""Schemas of topics: versions, compatibility, and Pulsar's storage of them."""
