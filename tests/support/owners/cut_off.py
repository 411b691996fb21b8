"""The end of a process, as an operation sees it that runs in the test's own process."""


class CutOff(Exception):
    """Stands for the end of the process: a step hook raises it."""
