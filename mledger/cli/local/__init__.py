"""A cluster on this machine: `mledger up`, `down` and `status`."""
