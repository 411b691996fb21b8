"""Namespaces, their policies and permissions, in the node where Pulsar keeps them."""
