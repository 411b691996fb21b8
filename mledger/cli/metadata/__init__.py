"""The commands of `mledger metadata`."""
