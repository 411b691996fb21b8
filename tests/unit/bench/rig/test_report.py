"""The form of a benchmark's results."""

import json

from bench.rig.report import emit_pairs


def test_a_pairs_ratio_is_the_median_of_the_ratios(capsys):
    emit_pairs("append", "case", [10.0, 30.0, 20.0], [10.0, 10.0, 40.0], "entries/s", "ceiling")
    line = json.loads(capsys.readouterr().out)
    assert (line["value"], line["peer_value"], line["ratio"], line["spread"]) == (20.0, 10.0, 1.0, [0.5, 3.0])
