"""The `mledger broker` commands."""
