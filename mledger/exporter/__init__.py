"""Metrics of a whole cluster from its metadata alone, at a limited rate; it changes nothing."""
