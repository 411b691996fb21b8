"""The page that `python -m bench` writes."""

import json

from bench.__main__ import table
from bench.rig.report import emit


def test_results_become_a_table(capsys):
    emit("append", "no peer", 1234.4, "entries/s")
    text = table([json.loads(capsys.readouterr().out)])
    assert text.splitlines()[-1] == "| append | no peer | 1,234 | entries/s |  |  |  |  |"
