"""Write into `docs/explanation/dependencies.md` which wheels native dependencies have, or check that it is current.

The tool runs pip in a dry run for each interpreter and processor, with the versions of CI, and installs nothing. A
package is native if pip chooses a wheel for one platform. The table is between `<!-- wheels -->` and
`<!-- /wheels -->`. With --check the tool compares only packages and versions, without network.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "dependencies.md"
PINS = (ROOT / "tools" / "constraints.txt", ROOT / "tools" / "data-packages.txt")
EXTRAS = ("local", "zookeeper", "spark", "hdfs", "report", "auth")
SOURCE_ONLY = ("pyspark",)
"""Published without a wheel; leaving these out saves pip a second run each time."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PROCESSORS = ("x86_64", "aarch64")
GLIBC = range(17, 40)
"""The minor versions of glibc 2 whose wheels count: Ubuntu 24.04 has 2.39."""
OLD_NAMES = {"manylinux1": 5, "manylinux2010": 12, "manylinux2014": 17}
TABLE = re.compile(r"(<!-- wheels -->\n)(.*?)(<!-- /wheels -->)", re.DOTALL)
MISSING = "**none**"
OTHERS = "The same on every platform: "
NOT_FOUND = re.compile(r"No matching distribution found for ([A-Za-z0-9._-]+?)==")

Wheels = dict[str, str]
"""The file name of the wheel that pip chooses, by package, without packages that have none."""


def normalized(name: str) -> str:
    """A distribution's name in the normalised form of package indexes."""
    return re.sub(r"[-_.]+", "-", name).lower()


def dependencies(pyproject: Mapping[str, Any], pins: str) -> dict[str, str]:
    """The pinned versions of the requirements of the distribution and `EXTRAS`. KeyError if one is not pinned."""
    versions = {normalized(name): found for name, found in re.findall(r"^([\w.-]+)==([^\s;]+)", pins, re.MULTILINE)}
    project = pyproject["project"]
    required = list(project["dependencies"])
    for extra in EXTRAS:
        required += project["optional-dependencies"][extra]
    names = {normalized(re.split(r"[<>=!~;\[ ]", requirement)[0]) for requirement in required}
    return {name: versions[name] for name in sorted(names)}


def chosen(python: str, processor: str, versions: Mapping[str, str]) -> Wheels:
    """The wheels that pip chooses on such a machine. RuntimeError if pip fails."""
    left = dict(versions)
    while True:
        sys.stderr.write(f"asking for {len(left)} packages for Python {python} on {processor}\n")
        with tempfile.TemporaryDirectory() as directory:
            report = Path(directory) / "report.json"
            asked = subprocess.run(
                _dry_run(python, processor, left, report), env=_plain(), capture_output=True, text=True
            )
            if asked.returncode == 0:
                files = [each["download_info"]["url"] for each in json.loads(report.read_text())["install"]]
                sys.stderr.write(f"done for Python {python} on {processor}\n")
                return {normalized(Path(file).name.split("-")[0]): Path(file).name for file in files}
        missing = NOT_FOUND.search(asked.stderr)
        if missing is None or re.search(rf"total=0,.*/simple/{normalized(missing[1])}/", asked.stderr):
            raise RuntimeError(f"pip failed for Python {python} on {processor}: {asked.stderr.strip()}")
        del left[normalized(missing[1])]


def _dry_run(python: str, processor: str, versions: Mapping[str, str], report: Path) -> list[str]:
    tags = [f"manylinux_2_{minor}_{processor}" for minor in GLIBC]
    tags[1:1] = [f"manylinux2014_{processor}"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--dry-run", "--quiet"]
    pip += ["--ignore-installed", "--no-deps", "--only-binary", ":all:", "--target", str(report.parent / "target")]
    pip += ["--implementation", "cp", "--python-version", python, "--report", str(report)]
    pip += [word for tag in tags for word in ("--platform", tag)]
    return pip + [f"{name}=={version}" for name, version in versions.items()]


def _plain() -> dict[str, str]:
    """The environment without settings for this machine's own wheels."""
    return {name: value for name, value in os.environ.items() if name != "PIP_FIND_LINKS"}


def glibc(wheel: str) -> str:
    """The oldest glibc that the platforms in a wheel's name allow; empty for a wheel for any platform."""
    platforms = wheel.removesuffix(".whl").rsplit("-", 1)[1]
    for name, minor in OLD_NAMES.items():
        platforms = platforms.replace(f"{name}_", f"manylinux_2_{minor}_")
    minors = [int(minor) for minor in re.findall(r"manylinux_2_(\d+)_", platforms)]
    return f"2.{min(minors)}" if minors else ""


def plan_table(versions: Mapping[str, str], found: Mapping[tuple[str, str], Wheels]) -> str:
    """The table, the missing wheels, and the packages without platform-specific wheels."""
    native = [name for name in versions if any(glibc(wheels.get(name, "-any.whl")) for wheels in found.values())]
    columns = [f"{_processor(processor)}, {python}" for processor, python in found]
    lines = [_row("package", "version", *columns), _row(*["---"] * (2 + len(columns)))]
    gaps = []
    for name in native:
        cells = []
        for (processor, python), wheels in found.items():
            wheel = wheels.get(name)
            cells.append(MISSING if wheel is None else glibc(wheel) or "any")
            if wheel is None:
                gaps.append(f"{name} {versions[name]} on Python {python}, {_processor(processor)}")
        lines.append(_row(name, versions[name], *cells))
    others = ", ".join(name for name in versions if name not in native)
    missing = f"No wheel: {'; '.join(gaps)}." if gaps else "No wheel is missing."
    return "\n".join([*lines, "", missing, "", f"{OTHERS}{others}.", ""])


def _processor(tag: str) -> str:
    return tag.replace("_", "-")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def stale(page: str, versions: Mapping[str, str]) -> list[str]:
    """The differences between the page's table and the pinned versions of the dependencies."""
    found = TABLE.search(page)
    if found is None:
        return ["no markers"]
    rows = dict(re.findall(r"^\| ([a-z][\w-]*) \| (\d[^ ]*) \|", found[2], re.MULTILINE))
    others = re.search(rf"^{OTHERS}(.*)\.$", found[2], re.MULTILINE)
    told = {*rows, *(others[1].split(", ") if others else ())}
    differing = [f"{name} {versions[name]}" for name in rows if rows[name] != versions.get(name, rows[name])]
    return differing + sorted(told ^ set(versions))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table, or with --check say whether it matches the pinned versions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, without network; exit code 1 if the table is stale"
    )
    check = parser.parse_args(arguments).check
    pins = "\n".join(path.read_text() for path in PINS)
    versions = dependencies(tomllib.loads((ROOT / "pyproject.toml").read_text()), pins)
    if check:
        differing = stale(PAGE.read_text(), versions)
        if differing:
            sys.stderr.write(f"{PAGE} is stale ({', '.join(differing)}): run {sys.argv[0]}\n")
        return 1 if differing else 0
    asked = {name: version for name, version in versions.items() if name not in SOURCE_ONLY}
    machines = [(processor, python) for processor in PROCESSORS for python in PYTHONS]
    with ThreadPoolExecutor(max_workers=len(machines)) as threads:
        wheels = threads.map(lambda machine: chosen(machine[1], machine[0], asked), machines)
        table = plan_table(versions, dict(zip(machines, wheels, strict=True)))
    PAGE.write_text(TABLE.sub(lambda markers: markers[1] + table + markers[3], PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
