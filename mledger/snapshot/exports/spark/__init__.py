"""Exports that Spark carries out: its session, the code of its workers, and the shares of its tasks."""
