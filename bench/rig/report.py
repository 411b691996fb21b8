"""The output of a benchmark: one JSON object per line."""

import json
import statistics
from collections.abc import Sequence
from typing import Any


def emit(
    bench: str,
    case: str,
    value: float,
    unit: str,
    *,
    peer: str | None = None,
    peer_value: float | None = None,
    ratio: float | None = None,
    spread: Sequence[float] | None = None,
    **more: Any,
) -> None:
    """Print one result.

    Args:
        bench: the benchmark.
        case: what was measured.
        value: our value.
        unit: the unit of `value` and `peer_value`.
        peer: what it is compared with; None if nothing.
        peer_value: the peer's value.
        ratio: ours over the peer's; for pairs the median of the ratios, not the ratio of the medians.
        spread: the lowest and highest ratio of the pairs, or value if there is no peer.
        more: further figures of the run.
    """
    if ratio is None and peer_value:
        ratio = value / peer_value
    line = {"bench": bench, "case": case, "value": _rounded(value), "unit": unit, "peer": peer}
    line |= {"peer_value": _rounded(peer_value), "ratio": _rounded(ratio)}
    line |= {"spread": [_rounded(edge) for edge in spread] if spread else None}
    print(json.dumps(line | more, ensure_ascii=False), flush=True)


def emit_pairs(bench: str, case: str, ours: Sequence[float], peers: Sequence[float], unit: str, peer: str) -> None:
    """Print medians of alternating pairs, the median of their ratios, and the lowest and highest of them.

    A peer's 0, of a time below its clock's resolution, has no ratio: the pair does not count there.
    """
    ratios = [own / other for own, other in zip(ours, peers, strict=True) if other]
    emit(
        bench,
        case,
        statistics.median(ours),
        unit,
        peer=peer,
        peer_value=statistics.median(peers),
        ratio=statistics.median(ratios) if ratios else None,
        spread=(min(ratios), max(ratios)) if ratios else None,
        pairs=len(ratios),
    )


def _rounded(value: float | None) -> float | None:
    if value is None:
        return None
    return round(value) if abs(value) >= 1000 else float(f"{value:.3g}")
