"""Finds faults in the records of topics and repairs them."""
