"""The form of a benchmark's results."""

import json

from bench.rig.report import emit_pairs


def test_a_pairs_ratio_is_the_median_of_the_ratios(capsys):
    emit_pairs("append", "case", [10.0, 30.0, 20.0], [10.0, 10.0, 40.0], "entries/s", "ceiling")
    line = json.loads(capsys.readouterr().out)
    assert (line["value"], line["peer_value"], line["ratio"], line["spread"]) == (20.0, 10.0, 1.0, [0.5, 3.0])


def test_a_pair_whose_peer_has_nothing_has_no_ratio(capsys):
    emit_pairs("standalones", "case", [1.0, 2.0], [0.0, 4.0], "s", "pulsar-lite")
    emit_pairs("standalones", "case", [1.0], [0.0], "s", "pulsar-lite")
    some, none = map(json.loads, capsys.readouterr().out.splitlines())
    assert (some["ratio"], some["pairs"]) == (0.5, 1)
    assert (none["ratio"], none["spread"], none["peer_value"], none["pairs"]) == (None, None, 0.0, 0)
