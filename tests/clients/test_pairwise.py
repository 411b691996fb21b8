"""The covering array covers every pair that can occur, and nothing that cannot."""

from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from tests.clients.pairwise import covering_array
from tests.clients.scenario import CLIENTS, DIMENSIONS, LACKS, is_possible, scenarios

sizes = st.lists(st.integers(1, 4), min_size=2, max_size=4)
forbidden_pairs = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=3)


def pairs(row):
    return set(combinations(row.items(), 2))


@given(sizes, forbidden_pairs)
def test_every_pair_of_an_allowed_row_is_covered_by_allowed_rows(sizes, forbidden):
    dimensions = {f"d{number}": list(range(size)) for number, size in enumerate(sizes)}

    def allowed(row):
        return (row.get("d0"), row.get("d1")) not in forbidden

    rows = covering_array(dimensions, allowed)
    whole = [dict(zip(dimensions, values, strict=True)) for values in product(*dimensions.values())]
    possible = set().union(*(pairs(row) for row in whole if allowed(row)))
    assert set().union(*map(pairs, rows)) == possible
    assert all(map(allowed, rows))


def test_rows_are_few():
    dimensions = {f"d{number}": range(4) for number in range(6)}
    assert len(covering_array(dimensions)) <= 2 * 4 * 4


def test_each_client_has_every_pair_of_values_that_it_can_have():
    for client in CLIENTS:
        rows = scenarios(client)
        for one, other in combinations(DIMENSIONS, 2):
            for values in product(DIMENSIONS[one], DIMENSIONS[other]):
                row = {one: values[0], other: values[1]}
                possible = is_possible(row) and not any(each.items() <= row.items() for each, _ in LACKS[client])
                found = any((getattr(row, one), getattr(row, other)) == values for row in rows)
                assert found == possible, (client, one, other, values)
