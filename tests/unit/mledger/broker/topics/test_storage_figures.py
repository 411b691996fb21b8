"""What a topic stores falls into Pulsar's buckets, whatever is stored together."""

import pytest

from mledger.broker.topics import client_rates
from mledger.broker.topics.storage_figures import NO_LATENCIES, NO_SIZES, StorageFigures, StorageRates
from tests.support.clock import SECOND_MS, Clock


@pytest.fixture
def figures(monkeypatch):
    """The figures of a topic, whose clock is their attribute."""
    clock = Clock()
    monkeypatch.setattr(client_rates, "steady_ms", clock)
    return StorageFigures(), clock


def stored(figures, *sizes, took_s=0.0):
    figures.stored([b"x" * size for size in sizes], sum(sizes), took_s)


@pytest.mark.parametrize(
    ("sizes", "buckets"),
    [
        ((0,), {0: 1}),
        ((128,), {0: 1}),
        ((129, 512), {1: 2}),
        ((4097, 1, 16_384, 128, 600), {0: 2, 2: 1, 5: 2}),
        ((1_232_897, 1_232_896), {8: 1, 7: 1}),
    ],
)
def test_entries_are_counted_by_size(figures, sizes, buckets):
    figures, _ = figures
    stored(figures, *sizes)
    figures.sample(0, 0)
    assert {bucket: count for bucket, count in enumerate(figures.sizes.buckets) if count} == buckets
    assert (figures.sizes.observed, figures.sizes.sum) == (len(sizes), sum(sizes))


@pytest.mark.parametrize(("took_s", "bucket"), [(0.0005, 0), (0.000501, 1), (0.1999, 7), (1.0, 8), (1.1, 9)])
def test_every_entry_takes_as_long_as_those_that_it_is_stored_with(figures, took_s, bucket):
    figures, _ = figures
    stored(figures, 1, 2, took_s=took_s)
    figures.sample(0, 0)
    assert figures.latencies.buckets[bucket] == 2
    assert figures.latencies.sum == pytest.approx(2 * took_s * 1e6, abs=2)


def test_a_sample_has_what_came_since_the_one_before(figures):
    figures, clock = figures
    stored(figures, 1, 1, 1, 1)
    clock.ms += 2 * SECOND_MS
    figures.sample(20, 10)
    assert figures.rates == StorageRates(2, 10, 5)
    clock.ms += SECOND_MS
    figures.sample(20, 10)
    assert (figures.rates, figures.latencies, figures.sizes) == (StorageRates(), NO_LATENCIES, NO_SIZES)


def test_topics_add_up(figures):
    figures, _ = figures
    stored(figures, 1, 200)
    figures.sample(0, 0)
    both = figures.sizes.plus(figures.sizes)
    assert (both.buckets[:2], both.observed, both.sum) == ((2, 2), 4, 402)
