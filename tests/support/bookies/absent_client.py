"""A client of a bookie that is gone before its answers are written."""


class AbsentClient:
    """A client that is gone."""

    def send(self, parts):
        """Does nothing."""

    def take(self):
        """Does nothing."""
