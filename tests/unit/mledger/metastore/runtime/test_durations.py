from mledger.metastore.runtime.durations import BOUNDS_S, Durations


def test_observations_are_counted_summed_and_put_into_buckets():
    times = Durations()
    times.observe(0.0005)
    times.observe(0.003, 4)
    times.observe(60.0)
    assert (times.count, round(times.seconds, 4)) == (6, 60.0125)
    found = dict(times.cumulative())
    assert (found["0.0005"], found["0.002"], found["0.005"], found["10.0"], found["+Inf"]) == (1, 1, 5, 5, 6)
    assert len(found) == len(BOUNDS_S) + 1
