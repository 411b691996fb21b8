"""The index of a subscription's delayed messages in ledgers, as Pulsar keeps it."""
