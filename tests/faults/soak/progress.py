"""One line that says what a soak does now, and for how long."""

import sys
import time


class Progress:
    """Prints what is done: again and again on one line of a terminal, or a line every ten seconds elsewhere."""

    def __init__(self, name: str) -> None:
        self._name, self._begun, self._said = name, time.monotonic(), 0.0
        self._terminal = sys.stderr.isatty()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begun

    def step(self, what: str, *, always: bool = False) -> None:
        """Print what is being done."""
        now = time.monotonic()
        if not always and now - self._said < (0.2 if self._terminal else 10.0):
            return
        self._said = now
        end = "\x1b[K\r" if self._terminal and not always else "\n"
        sys.stderr.write(f"{self._name} {self.seconds:6.0f} s  {what}{end}")
        sys.stderr.flush()
