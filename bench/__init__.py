"""Benchmarks in real processes with sync on: `python -m bench` runs all, `python -m bench.append` and so on one."""
