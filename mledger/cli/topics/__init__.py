"""The commands of `mledger topics`."""
