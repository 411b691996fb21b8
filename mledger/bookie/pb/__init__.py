"""Protobuf modules generated from `proto/` by `tools/generate_protos.py`; `mledger.bookie.wire` uses them."""
