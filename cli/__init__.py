"""The `mledger` command."""
