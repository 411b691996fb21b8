"""The commands of `mledger cursors`."""
