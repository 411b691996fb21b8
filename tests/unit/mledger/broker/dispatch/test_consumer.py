"""Which hashes a consumer asks for."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.dispatch.keys.key_hash import KeyRange

numbers = st.integers(0, 40)


@given(st.lists(st.builds(KeyRange, numbers, numbers), max_size=8))
def test_a_consumer_asks_for_the_hashes_of_its_ranges_however_these_lie(ranges):
    consumer = DispatchConsumer(None, "a", key_ranges=ranges)
    wanted = [hashed for hashed in range(45) if any(each.start <= hashed <= each.end for each in ranges)]
    assert [hashed for hashed in range(45) if consumer.asks_for(hashed)] == wanted
