"""Payloads of benchmarks: an entry's number gives its content."""

from bench.workload.payloads import batches, pool


def test_payloads_are_distinct_and_batches_go_round_them():
    payloads = pool("100")
    assert len(set(payloads)) == len(payloads)
    assert {len(payload) for payload in payloads} == {100}
    turns = batches(payloads[:7], 3)
    assert [next(turns) for _ in range(3)] == [payloads[0:3], payloads[3:6], [payloads[6], payloads[0], payloads[1]]]
