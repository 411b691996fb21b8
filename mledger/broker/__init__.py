"""A broker: serves topics to Pulsar's clients over Pulsar's binary protocol."""
