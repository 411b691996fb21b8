"""Metrics of a whole cluster from its metadata, at a limited rate; it changes nothing."""
