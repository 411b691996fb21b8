"""Numbers in a form for people."""

import itertools

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_THOUSANDS = ("", "k", "M", "G", "T", "P", "E")
_SPANS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def as_number(value: int) -> str:
    """A number with a comma after every three digits."""
    return f"{value:,}"


def as_bytes(value: int) -> str:
    """A size in the unit that leaves one to four digits before the point."""
    size = float(value)
    for unit in _UNITS:
        if abs(size) < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{value} B" if unit == "B" else f"{size:.1f} {unit}"


def as_short_bytes(value: int) -> str:
    """As `as_bytes`, without a fraction that is zero, for axes."""
    return as_bytes(value).replace(".0 ", " ")


def ticks_up_to(largest: int, *, in_bytes: bool = False) -> list[int]:
    """Three to seven round values from 0 to about `largest` for an axis; of bytes, round in their unit."""
    unit = 1
    while in_bytes and largest >= unit * 1024:
        unit *= 1024
    step, factors = unit, itertools.cycle((2, 2.5, 2))
    while largest > 5 * step:
        step = int(step * next(factors))
    while unit > 1 and largest < 2 * step:
        step //= 2
    return [step * at for at in range(max(1, -(-largest // step)) + 1)]


def as_span(seconds: int) -> str:
    """A duration in its two largest units."""
    found = []
    left = max(0, seconds)
    for size, unit in _SPANS:
        if left >= size:
            found.append(f"{left // size} {unit}")
            left %= size
        elif found:
            break
        if len(found) == 2:
            break
    return " ".join(found) or "0 s"


def as_short(value: int) -> str:
    """A number in at most four characters and a unit, for axes: 950, 1.2k, 34M."""
    size = float(value)
    for unit in _THOUSANDS:
        if abs(size) < 1000 or unit == _THOUSANDS[-1]:
            break
        size /= 1000
    return f"{value}" if not unit else f"{size:.3g}{unit}"


def as_change(value: int, text: str) -> str:
    """The text of a number's size with its sign; no change has none."""
    return f"+{text}" if value > 0 else f"\N{MINUS SIGN}{text}" if value < 0 else text
