"""How a run of the tests is ordered, repeated and judged."""
