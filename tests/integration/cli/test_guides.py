"""The guides in docs/: each example prints what it says, run in order in one shell on a real cluster."""

from pathlib import Path

import pytest

from tests.support.transcripts import Command, agrees, commands_of, run_transcript

ROOT = Path(__file__).parents[3]
GUIDES = ("tour.md", "operators-guide.md")
READERS_CLUSTER = "zk://zk-1:2181,zk-2:2181,zk-3:2181"
"""What stands for the reader's own cluster: here the one that `mledger up` has started."""


def commands(guide: str) -> list[Command]:
    """The commands of a guide."""
    text = (ROOT / "docs" / guide).read_text()
    return commands_of(text.replace(READERS_CLUSTER, "$(mledger status --url)"))


EXAMPLES = [
    pytest.param(guide, index, id=f"{guide} {command.name}")
    for guide in GUIDES
    for index, command in enumerate(commands(guide))
]


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Runs a guide once; the directory of what its examples printed."""
    done: dict[str, Path] = {}

    def run(guide: str) -> Path:
        if guide not in done:
            done[guide] = run_transcript(commands(guide), tmp_path_factory.mktemp("guide"))
        return done[guide]

    return run


@pytest.mark.parametrize(("guide", "index"), EXAMPLES)
def test_an_example_of_a_guide_prints_what_it_says(printed, guide, index) -> None:
    example = commands(guide)[index]
    shown = (printed(guide) / f"{index}.out").read_text()
    code = int((printed(guide) / f"{index}.code").read_text())
    assert code == 0 or example.may_fail, shown
    assert not example.shown or agrees(example.shown, shown), shown
