"""`python -m tests.fuzz`: damaged frames, records and ZooKeeper files for all their readers (reliability.md)."""

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz import broker, frames, records, zookeeper
from tests.fuzz.run import Report, fuzz, stay_quiet
from tests.fuzz.targets import FuzzTarget

TARGETS = [*broker.TARGETS, *frames.TARGETS, *records.TARGETS, *zookeeper.TARGETS]


def plan_inputs(targets: list[FuzzTarget], total: int) -> list[int]:
    """How many inputs each target gets of `total`, by weight; at least one."""
    weights = sum(target.weight for target in targets)
    shares = [max(1, total * target.weight // weights) for target in targets]
    shares[0] += max(0, total - sum(shares))
    return shares


def main(arguments: list[str] | None = None) -> int:
    """Run. The exit code is 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs in total, shared out by weight")
    parser.add_argument("--each", type=int, help="inputs for each target instead")
    parser.add_argument("--seed", default="1", help="the same seed makes the same inputs")
    parser.add_argument("--target", action="append", choices=[target.name for target in TARGETS], help="only these")
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="where inputs found are written")
    options = parser.parse_args(arguments)
    stay_quiet(options.nice)
    frames.quiet()
    targets = [target for target in TARGETS if not options.target or target.name in options.target]
    shares = [options.each] * len(targets) if options.each else plan_inputs(targets, options.inputs)
    began, reports = time.monotonic(), []
    print(f"{'target':<20} {'inputs':>11} {'accepted':>11} {'CPU s':>8} {'slowest ms':>11} {'memory MiB':>11}")
    for target, inputs in zip(targets, shares, strict=True):
        report = fuzz(target, inputs, options.seed)
        _print(report, options.findings)
        reports.append(report)
    found = sum(len(report.findings) for report in reports)
    total = sum(report.inputs for report in reports)
    print(f"{total} inputs in {time.monotonic() - began:.0f} s, seed {options.seed}: {found} findings")
    return 1 if found else 0


def _print(report: Report, folder: Path) -> None:
    print(
        f"{report.target:<20} {report.inputs:>11} {report.accepted:>11} {report.cpu_s:>8.1f} "
        f"{report.slowest_s * 1000:>11.1f} {report.memory_mib:>11.1f}",
        flush=True,
    )
    for number, finding in enumerate(report.findings):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{report.target.replace(' ', '-')}-{number}"
        path.write_bytes(finding.data)
        print(f"  FOUND {finding.what}: {len(finding.data)} bytes in {path}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
