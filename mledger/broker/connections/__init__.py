"""Connections of clients: a protocol for each, and a module of handlers for each group of commands."""
