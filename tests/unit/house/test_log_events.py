"""The whole product logs events of one form: a name and fields, by the loggers of one module."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("mledger", "pyspark_mledger", "pytest_mledger")
LOGS = "mledger/metastore/runtime/logs/loggers.py"
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
OF_OTHERS = {"logging", "structlog"}
EVENT = re.compile(r"[a-z]+(_[a-z]+)*")


def faults(source: str) -> list[str]:
    """Whatever has another form: other loggers, and calls whose first argument is not the name of an event."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and OF_OTHERS & {name.name.partition(".")[0] for name in node.names}:
            found.append(f"{node.lineno}: {ast.unparse(node)}")
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in OF_OTHERS:
            found.append(f"{node.lineno}: {ast.unparse(node)}")
        if isinstance(node, ast.Call) and is_get_logger(node) and not names_module_logger(source, node):
            found.append(f"{node.lineno}: a logger is a module's, by the name log")
        if isinstance(node, ast.Call) and is_log_call(node) and not is_event(node):
            found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def is_get_logger(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "get_logger"


def names_module_logger(source: str, call: ast.Call) -> bool:
    return source.splitlines()[call.lineno - 1].startswith("log = get_logger(")


def is_log_call(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr in LEVELS
        and ast.unparse(function.value).rpartition(".")[2].lower() in ("log", "_log", "logger", "_logger", "logging")
    )


def is_event(call: ast.Call) -> bool:
    match call.args:
        case [ast.Constant(str(name))]:
            return EVENT.fullmatch(name) is not None and ast.unparse(call.func).startswith("log.")
        case [ast.Name()]:  # one of several events, each named where it is chosen
            return ast.unparse(call.func).startswith("log.")
    return False


def sources() -> list[Path]:
    found = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [path for path in found if path != ROOT / LOGS]


def test_every_module_logs_events_by_the_one_logger() -> None:
    assert {str(path.relative_to(ROOT)): wrong for path in sources() if (wrong := faults(path.read_text()))} == {}


def test_the_check_reads_calls_that_log_events() -> None:
    calls = [node for path in sources() for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert sum(map(is_log_call, calls)) > 100


@pytest.mark.parametrize(
    "line",
    [
        "import logging",
        "import logging.config",
        "from logging import getLogger",
        "import structlog",
        "from structlog.stdlib import get_logger",
        "logger = get_logger(__name__)",
        'log.warning(f"ledger {ledger} fenced")',
        'log.warning("ledger_fenced ledger=%d", ledger)',
        'log.warning("ledger_fenced", ledger)',
        'log.warning("ledger %d fenced" % ledger)',
        'log.warning("Ledger fenced")',
        'logger.warning("ledger_fenced")',
        'self._logger.info("ledger_fenced")',
        "log.error(str(error))",
    ],
)
def test_another_form_is_found(line: str) -> None:
    assert faults(line)


def test_an_ordinary_call_is_not_taken_for_logging() -> None:
    assert faults('log = get_logger(__name__)\nlog.warning("ledger_fenced", ledger=5)\nself.error("x y")') == []
