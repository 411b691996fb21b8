"""A process of ours: its event loop, its pauses, and the processes that it starts."""
