"""Exporters and Prometheus as processes of tests."""
