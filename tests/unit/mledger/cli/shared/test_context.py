"""Which cluster a command uses, and how long it may take."""

import asyncio

import pytest

from mledger.cli.shared.context import CommandContext, CommandTimeout, SelectedCluster, plan_cluster
from mledger.cli.shared.context_file import ContextError, Contexts

CONTEXTS = Contexts({"prod": "zk://prod:1", "test": "zk://test:1"}, "test")
BOTH = {"MLEDGER_METADATA": "zk://variable:1", "MLEDGER_CONTEXT": "prod"}


@pytest.mark.parametrize(
    ("metadata", "context", "environment", "selected"),
    [
        ("zk://option:1", "prod", BOTH, SelectedCluster("zk://option:1", "--metadata")),
        (None, "prod", BOTH, SelectedCluster("zk://prod:1", "--context")),
        (None, None, BOTH, SelectedCluster("zk://variable:1", "MLEDGER_METADATA")),
        (None, None, {"MLEDGER_CONTEXT": "prod"}, SelectedCluster("zk://prod:1", "MLEDGER_CONTEXT")),
        (None, None, {}, SelectedCluster("zk://test:1", "context test", by_default=True)),
    ],
)
def test_options_come_before_the_environment_and_that_before_the_current_context(
    metadata: str | None, context: str | None, environment: dict[str, str], selected: SelectedCluster
) -> None:
    assert plan_cluster(metadata, context, environment, lambda: CONTEXTS) == selected


def test_without_any_of_them_there_is_no_cluster() -> None:
    assert plan_cluster(None, None, {}, Contexts) is None


def test_an_unknown_context_is_an_error() -> None:
    with pytest.raises(ContextError, match="no context 'prod'"):
        plan_cluster(None, None, {"MLEDGER_CONTEXT": "prod"}, Contexts)


def test_the_file_is_not_read_if_a_url_is_given() -> None:
    def unreadable() -> Contexts:
        raise ContextError("the file was read")

    assert plan_cluster("zk://option:1", None, {}, unreadable) is not None


async def _forever() -> None:
    await asyncio.Event().wait()


async def _own_time_is_up() -> None:
    raise TimeoutError("of something else")


def test_a_command_ends_when_its_time_is_up() -> None:
    with pytest.raises(CommandTimeout, match=r"not done within --timeout, 0.01 s"):
        CommandContext(timeout_s=0.01).run(_forever())


def test_another_timeout_is_not_taken_for_the_commands() -> None:
    with pytest.raises(TimeoutError, match="of something else"):
        CommandContext(timeout_s=60).run(_own_time_is_up())
