"""Protobuf modules generated from `proto/` by `tools/generate_protos.py`."""
