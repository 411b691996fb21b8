"""The documents build as a site without a warning: every page is reachable and every link works."""

import subprocess
import sys
from pathlib import Path

from tests.support.aio import HANG_S

ROOT = Path(__file__).parents[3]


def test_the_documents_build_without_a_warning(tmp_path) -> None:
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        "docs",
        tmp_path / "site",
    ]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "site" / "tutorials" / "tour.html").exists()


def test_the_picture_of_a_recovery_shows_its_events(tmp_path) -> None:
    picture = tmp_path / "recovery.svg"
    subprocess.run([sys.executable, "tools/draw_recovery.py", picture], cwd=ROOT, check=True, timeout=HANG_S)
    assert picture.read_text() == (ROOT / "docs" / "pictures" / "recovery.svg").read_text()
