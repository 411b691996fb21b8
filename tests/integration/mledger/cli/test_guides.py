"""The guides in docs/: each example prints what the guide shows, run in order in one shell on a real cluster."""

from pathlib import Path

import pytest

from tests.support.commands.documents import text_of
from tests.support.commands.transcripts import ShownCommand, check, commands_of, run_transcript

GUIDES = ("tutorials/tour.md", "how-to/operators-guide.md", "reference/configuration.md", "how-to/reports.md")
HERE = {
    "zk://zk-1:2181,zk-2:2181,zk-3:2181": "$(mledger status --url)",
    "file:///backup/zookeeper": "file://$PWD/mledger-data/zookeeper/data",
    "/backup/metadata": "backup",
}
"""Our own names, in a cluster that `mledger up` has started, for those of the reader."""


def commands(guide: str) -> list[ShownCommand]:
    """The commands of a guide."""
    text = text_of(guide)
    for theirs, ours in HERE.items():
        text = text.replace(theirs, ours)
    return commands_of(text)


EXAMPLES = [
    pytest.param(guide, index, id=f"{guide} {command.name}")
    for guide in GUIDES
    for index, command in enumerate(commands(guide))
]


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Runs a guide once. Returns the directory with the output of its examples."""
    done: dict[str, Path] = {}

    def run(guide: str) -> Path:
        if guide not in done:
            done[guide] = run_transcript(commands(guide), tmp_path_factory.mktemp("guide"))
        return done[guide]

    return run


@pytest.mark.parametrize(("guide", "index"), EXAMPLES)
def test_an_example_of_a_guide_prints_what_the_guide_shows(printed, guide, index) -> None:
    check(commands(guide)[index], index, printed(guide))
