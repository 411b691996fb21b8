"""The commands of `mledger bookies`."""
