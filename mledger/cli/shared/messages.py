"""A command's errors and warnings on stderr: text lines, or JSON objects with --log-format json."""

import contextlib
import os
from collections.abc import Iterator, Mapping

import click

from mledger.cli.shared.output.plain_text import escaped
from mledger.metastore.runtime.logs.loggers import FORMATS, JSON, TEXT, discard_logs, format_event, set_up_logging

FORMAT_VARIABLE = "MLEDGER_LOG_FORMAT"
DEBUG_VARIABLE = "MLEDGER_DEBUG"


class Messages:
    """Prints the errors and warnings of this process in the format set last."""

    def __init__(self) -> None:
        self._format = TEXT
        self._verbosity = 0

    @property
    def log_format(self) -> str:
        """`text` or `json`."""
        return self._format

    def use(self, log_format: str | None) -> None:
        """Set the format; None: the one in the environment, by default text."""
        found = log_format or os.environ.get(FORMAT_VARIABLE) or TEXT
        self._format = found if found in FORMATS else TEXT
        self._set_up()

    @staticmethod
    def check_environment() -> None:
        """Raise click.UsageError for a format in the environment that there is not."""
        found = os.environ.get(FORMAT_VARIABLE) or TEXT
        if found not in FORMATS:
            raise click.UsageError(f"{FORMAT_VARIABLE} is {found!r}: set it to {' or '.join(FORMATS)}, or unset it")

    @property
    def traces(self) -> bool:
        """Whether errors are shown with a traceback."""
        return self._verbosity > 1 or _debugs()

    def set_verbosity(self, verbosity: int) -> None:
        """Log the program's events: 1 from level info, 2 from level debug, with tracebacks of errors."""
        self._verbosity = verbosity
        self._set_up()

    def _set_up(self) -> None:
        if self._verbosity or _debugs():
            set_up_logging(self._format, "debug" if self._verbosity > 1 else "info")
        else:  # logs are for debugging: commands print what users need to know
            discard_logs()

    def error(self, text: str, exit_code: int | None = None) -> None:
        """Print an error."""
        code = {} if exit_code is None else {"exit_code": exit_code}
        self._say("error", "", "command_failed", {"message": text, **code})

    def warning(self, text: str) -> None:
        """Print a warning; the command continues."""
        self._say("warning", "warning: ", "command_warned", {"message": text})

    @contextlib.contextmanager
    def made(self, what: str) -> Iterator[None]:
        """Tell that a change was made, `what`, if what is left of the command fails meanwhile.

        Its error alone would read as if nothing had been changed.
        """
        try:
            yield
        except BrokenPipeError:
            self.warning(f"{what}, and nobody reads the output")
            raise
        except Exception:
            self.warning(f"{what}, but the command could not finish")
            raise

    def _say(self, level: str, prefix: str, event: str, fields: Mapping[str, object]) -> None:
        if self._format == JSON:
            line = format_event(JSON, level, event, fields)
        else:
            line = f"mledger: {prefix}{escaped(str(fields['message']))}"
        with contextlib.suppress(OSError):  # a message that nobody can read stops no command in the middle of a change
            click.echo(line, err=True)


def _debugs() -> bool:
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


messages = Messages()
