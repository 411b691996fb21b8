"""The seeds that were run so far, by version: `accumulated.json`, and its figures in docs/reference/reliability.md.

Tests run the seeds that come next. They are the same for one version of the record, and others whenever it has grown.
"""

import hashlib
import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tests.faults.soak.report import PAGE, ROOT, Row, section, write

RECORD = Path(__file__).with_name("accumulated.json")
FIRST = 20_000
"""Those below are searched for defects whose fixes are taken out."""
_NAME = "sim"


@dataclass(frozen=True)
class Run:
    """Seeds that were run with one version of the product and of the simulator."""

    version: str
    """The commit, as git describes it."""
    sources: str
    """A digest of all sources that take part, the same in every checkout."""
    first: int
    last: int
    cpu_s: float
    """Processor time, all included."""
    steps: int
    """Callbacks of the loop."""
    violations: dict[str, str] = field(default_factory=dict)
    """What was violated, by seed."""

    @property
    def schedules(self) -> int:
        """How many seeds were run."""
        return self.last - self.first + 1


def plan_added(runs: Sequence[Run], run: Run) -> list[Run]:
    """The runs with one more, which goes on with the last one where nothing else has changed."""
    if runs and runs[-1].sources == run.sources and runs[-1].last + 1 == run.first:
        last = runs[-1]
        longer = replace(
            last,
            last=run.last,
            cpu_s=last.cpu_s + run.cpu_s,
            steps=last.steps + run.steps,
            violations={**last.violations, **run.violations},
        )
        return [*runs[:-1], longer]
    return [*runs, run]


def next_seed(runs: Sequence[Run]) -> int:
    """The first seed that was not run."""
    return max((run.last + 1 for run in runs), default=FIRST)


def unviolated(runs: Sequence[Run]) -> int:
    """How many seeds were run since the last one that violated something, or since the first."""
    count = 0
    for run in reversed(runs):
        if run.violations:
            return count + run.last - max(map(int, run.violations))
        count += run.schedules
    return count


def plan_figures(runs: Sequence[Run]) -> list[Row]:
    """The figures of the report."""
    last = runs[-1]
    violated = [seed for run in runs for seed in run.violations]
    return [
        ("schedules, each of a seed of its own", f"{sum(run.schedules for run in runs):,}", ""),
        ("seeds", f"{runs[0].first:,} to {last.last:,}", ""),
        ("versions of the sources", f"{len({run.sources for run in runs})}", ""),
        ("schedules that violated something", f"{len(violated):,}", ""),
        ("schedules since the last one that did", f"{unviolated(runs):,}", ""),
        (
            f"schedules of the last version, {last.sources}, and violations",
            f"{last.schedules:,}, {len(last.violations)}",
            "0 violations",
        ),
        (
            "a schedule's cost at the last version: processor time, callbacks",
            f"{1000 * last.cpu_s / last.schedules:.0f} ms, {last.steps / last.schedules:,.0f}",
            "",
        ),
    ]


def read(record: Path = RECORD) -> list[Run]:
    """The runs so far."""
    if not record.exists():
        return []
    return [Run(**each) for each in json.loads(record.read_text())["runs"]]


def add(run: Run, record: Path = RECORD, page: Path = PAGE) -> None:
    """Record a run, and write the figures."""
    runs = plan_added(read(record), run)
    record.write_text(json.dumps({"runs": [asdict(each) for each in runs]}, indent=1) + "\n")
    write(_NAME, section(plan_figures(runs), "make sim"), page)


def version() -> str:
    """The commit, as git describes it."""
    command = ["git", "describe", "--always", "--dirty"]
    described = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return described.stdout.strip() or "unknown"


def sources() -> str:
    """A digest of the product's and the simulator's sources."""
    found = hashlib.sha256()
    for folder in ("mledger", "tests/sim", "tests/faults"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.name.startswith("test_"):
                found.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return found.hexdigest()[:12]
