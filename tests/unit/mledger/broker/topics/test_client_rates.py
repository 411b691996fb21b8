"""Rates of clients are differences of what they counted, and sampling those of very many holds nobody up."""

import asyncio
from types import SimpleNamespace

import pytest

from mledger.broker.process.options import parse_broker_options
from mledger.broker.topics import client_rates
from mledger.broker.topics.client_rates import IN_A_ROW, RateSampler, RatesIn, SampledRates
from tests.support.aio import run
from tests.support.clock import MINUTE_MS, SECOND_MS, Clock


@pytest.fixture
def clock(monkeypatch):
    """The clock of the rates."""
    clock = Clock()
    monkeypatch.setattr(client_rates, "steady_ms", clock)
    return clock


def test_a_sample_takes_what_was_counted_since_the_one_before(clock):
    rates = SampledRates(2)
    assert rates.per_second == (0, 0)
    clock.ms += MINUTE_MS
    rates.sample((60, 1200))
    assert rates.per_second == (1, 20)
    clock.ms += MINUTE_MS
    rates.sample((60, 1200))
    assert rates.per_second == (0, 0)


def test_the_first_sample_takes_what_was_counted_since_the_client_came(clock):
    clock.ms += MINUTE_MS
    rates = SampledRates(1)
    clock.ms += 10 * SECOND_MS
    rates.sample((20,))
    assert rates.per_second == (2,)


def test_what_is_sampled_twice_at_one_time_stays(clock):
    rates = SampledRates(1)
    clock.ms += SECOND_MS
    rates.sample((3,))
    rates.sample((5,))
    assert rates.per_second == (3,)
    clock.ms += SECOND_MS
    rates.sample((7,))
    assert rates.per_second == (4,)


def test_messages_have_an_average_size_where_there_are_any():
    assert RatesIn(2.0, 30.0, 0.0).average_size == 15
    assert RatesIn(0.0, 0.0, 0.0).average_size == 0


@pytest.mark.parametrize(("topics", "consumers"), [(10 * IN_A_ROW, 0), (1, 10 * IN_A_ROW)])
def test_clients_get_their_turn_while_very_many_topics_or_consumers_are_sampled(topics, consumers):
    async def main():
        sampled, turns = [], 0
        consumer = SimpleNamespace(sample=lambda: sampled.append(turns))
        subscription = SimpleNamespace(consumers=[consumer] * consumers)
        topic = SimpleNamespace(producers=(), subscriptions=[subscription], sample=lambda: None)
        look = asyncio.ensure_future(RateSampler(lambda: [topic] * topics, 60).look(0))
        while not look.done():
            turns += 1
            await asyncio.sleep(0)
        return turns, len(sampled)

    turns, sampled = run(main())
    assert turns >= 10
    assert sampled == topics * consumers


def test_samples_are_as_far_apart_as_broker_conf_says():
    given = ["--metadata", "memory:", "--set", "statsUpdateFrequencyInSecs=7"]
    settings = parse_broker_options(given).broker
    assert settings.rates_interval_s == 7
    assert RateSampler(list, settings.rates_interval_s).check.interval_s == 7
