"""A transport that notes whether it is asked to read."""

import asyncio


class RecordedTransport(asyncio.Transport):
    """Appends "pause" and "resume" to `done`."""

    def __init__(self, done: list[object]) -> None:
        super().__init__()
        self.done, self.closing = done, False

    def is_closing(self) -> bool:
        """Whether a test has said so."""
        return self.closing

    def pause_reading(self) -> None:
        """Note it."""
        self.done.append("pause")

    def resume_reading(self) -> None:
        """Note it."""
        self.done.append("resume")
