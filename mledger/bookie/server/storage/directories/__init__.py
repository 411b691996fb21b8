"""A bookie's directories: their owner, their files, and how much of the disk is free."""
