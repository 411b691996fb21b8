"""Pulsar on one machine in one process: metadata, bookies and a broker (`mledger standalone`)."""
