"""The programs of Pulsar's container image, by which tests of other projects start it (docs/how-to/containers.md)."""
