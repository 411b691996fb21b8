"""Each bookie is in one state."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.exporter.bookie_states import BookieStates, plan_states

names = st.sets(st.sampled_from(["a:1", "b:1", "c:1", "d:1"]))


def test_a_cookie_without_a_registration_is_a_missing_bookie():
    assert plan_states(["a:1", "readonly"], ["b:1"], ["a:1", "b:1", "c:1"]) == BookieStates(
        ("a:1",), ("b:1",), ("c:1",)
    )


@given(names, names, names)
def test_every_known_bookie_is_in_exactly_one_state(available, read_only, cookies):
    found = plan_states(available, read_only, cookies)
    assert sorted([*found.writable, *found.read_only, *found.missing]) == sorted(available | read_only | cookies)
    assert set(found.writable) == available
