"""The `mledger` command: runs a command and turns an error into one line and an exit code."""

import gc
import importlib
import os
import sys
import traceback
from collections.abc import Sequence

import click

from mledger.cli.catalogue import NOUNS
from mledger.cli.shared.command_groups import LazyGroup
from mledger.cli.shared.context import common_options
from mledger.cli.shared.errors import FAILED, OK, exit_code, one_line
from mledger.cli.shared.messages import messages
from mledger.cli.shared.output.plain_text import write_any_character
from mledger.cli.shared.output.standard_output import buffer_stdout, drop_unwritable, not_written, problem_of
from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.logs.loggers import open_standard_streams
from mledger.metastore.runtime.processes.child_processes import ONE_BLAS_THREAD
from mledger.metastore.runtime.processes.gc_pause import collect_seldom
from mledger.metastore.zookeeper.secrets import set_prompt

COMPLETE_VARIABLE = "_MLEDGER_COMPLETE"  # set by the script of `mledger completion`
INTERRUPTED = 130


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="mledger")
@common_options
def command() -> None:
    """Topics, cursors, ledgers and bookies of a Pulsar storage cluster.

    Read-only commands change nothing and fence nothing. Exit codes: 0 ok, 1 failed, 2 usage, 3 not
    found, 4 fenced, conflict or owned elsewhere, 5 unavailable.
    """


command.lazy = NOUNS


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments` (default: the process's) and return its exit code."""
    code = _run(arguments)
    problem = drop_unwritable(sys.stdout)
    if problem is not None and code == OK:  # what a parser printed, and no command flushed
        code = FAILED
        if said := not_written(problem):
            messages.error(said, code)
    drop_unwritable(sys.stderr)
    return code


def _run(arguments: Sequence[str] | None) -> int:
    messages.use(None)
    set_prompt(_ask_secret if sys.stdin.isatty() else None)
    if COMPLETE_VARIABLE in os.environ:
        importlib.import_module("mledger.cli.completion").register()
    try:
        if COMPLETE_VARIABLE not in os.environ:
            messages.check_environment()
        result = command.main(args=arguments, prog_name="mledger", standalone_mode=False)
        return result if isinstance(result, int) else OK
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        click.echo(help_wanted.format_message(), err=True)
        return help_wanted.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (see `{context.command_path} --help`)" if context is not None else ""
        messages.error(f"{' '.join(error.format_message().split())}{hint}", error.exit_code)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        messages.error("interrupted", INTERRUPTED)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        return FAILED
    except (MledgerError, OSError, ValueError) as error:
        return _failed(error)
    except Exception as error:
        messages.error(f"unexpected {one_line(error)}; -vv shows the traceback", FAILED)
        _show_trace()
        return FAILED


def main() -> None:
    """Entry point of the `mledger` script."""
    open_standard_streams()
    collect_seldom()
    os.environ.setdefault(*ONE_BLAS_THREAD)
    buffer_stdout()
    write_any_character(sys.stdout)
    code = run()
    if "duckdb" not in sys.modules:  # DuckDB 2.0.0 takes what is frozen for leaked, and tells so on stderr
        gc.freeze()
    sys.exit(code)


def _failed(error: Exception) -> int:
    code = exit_code(error)
    problem = problem_of(sys.stdout) if isinstance(error, OSError) else None
    messages.error((not_written(problem) if problem is not None else "") or one_line(error), code)
    _show_trace()
    return code


def _ask_secret(what: str) -> str:
    return str(click.prompt(what, hide_input=True, err=True))


def _show_trace() -> None:
    if messages.traces:
        traceback.print_exc()


if __name__ == "__main__":
    main()
