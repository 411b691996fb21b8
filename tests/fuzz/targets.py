"""A fuzz target is a maker of inputs and a reader that may refuse them, by its own errors only."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.mutate import Mutator

Maker = Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class FuzzTarget:
    """One reader under test.

    `make` gives the maker of inputs for a seed, `run` reads one and raises nothing but `refusals`; `weight` is its
    share of the inputs.
    """

    name: str
    make: Callable[[str], Maker]
    run: Callable[[bytes], None]
    refusals: tuple[type[Exception], ...]
    weight: int = 4


class Disagreement(AssertionError):
    """A reader accepted an input and read something else than is there."""


def of_seeds(
    seeds: Callable[[], list[bytes]],
    *,
    message: bool = False,
    inner: Callable[[], list[bytes]] | None = None,
    wrap: Callable[[bytes], bytes] | None = None,
) -> Callable[[str], Maker]:
    """Inputs made from `seeds`.

    With `wrap`, half of them are changed inside: made from `inner` (else from `seeds`) and then wrapped, so that
    lengths and checksums around the damage are right and the reader gets to it.
    """

    def make(seed: str) -> Maker:
        whole = Mutator(seeds(), seed, message=message and wrap is None)
        if wrap is None:
            return whole.make
        within = Mutator((inner or seeds)(), seed, message=message)

        def either() -> bytes:
            return wrap(within.make()) if whole.below(2) else whole.make()

        return either

    return make
