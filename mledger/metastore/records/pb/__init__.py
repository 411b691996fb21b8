"""Protobuf modules generated from `proto/` by `tools/generate_protos.py`; `records.codec` and its like use them."""
