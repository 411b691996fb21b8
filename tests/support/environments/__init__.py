"""Interpreters, installations and containers that tests run in."""
