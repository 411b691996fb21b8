"""The commands of `mledger ledgers`."""
