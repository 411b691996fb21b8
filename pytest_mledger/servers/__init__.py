"""The processes of a cluster: how they are started, signalled and awaited, their ports and clocks."""
