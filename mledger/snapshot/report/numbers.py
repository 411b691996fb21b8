"""Numbers in a form for people."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
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
