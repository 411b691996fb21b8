"""Protobuf modules generated from `proto/` by `tools/generate_protos.py`; `metastore.codec` and its like use them."""
