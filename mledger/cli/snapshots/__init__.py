"""The commands of `mledger snapshot` and `mledger report`."""
