"""`bin/pulsar` of Pulsar's image: `bin/pulsar standalone`, with the original's options."""

import argparse
import os
import shutil
import sys
from collections.abc import Mapping, Sequence

from mledger.standalone.addresses import StandaloneAddresses
from mledger.standalone.main import main as run_standalone
from mledger.standalone.main import print_ready

PROGRAM = "bin/pulsar"
STANDALONE = "standalone"
CONFIG = os.path.join("conf", "standalone.conf")
DATA = os.path.join("data", "standalone")
READY = "Successfully updated the policies on namespace public/default"
"""What the original logs before it serves. testcontainers for Go waits for it."""
WITHOUT_EFFECT = (
    ("--no-functions-worker", "-nfw"),
    ("--no-stream-storage", "-nss"),
)
"""Options that leave out what is not in this image anyway."""
OF_OTHER_PARTS = (
    "--bookkeeper-dir",
    "--bookkeeper-port",
    "--functions-worker-conf",
    "--stream-storage-port",
    "--zookeeper-dir",
    "--zookeeper-port",
)
"""Options with a value, of parts that this process has no files or ports of."""


def plan_standalone(args: argparse.Namespace, environment: Mapping[str, str]) -> list[str]:
    """The options of `mledger standalone` for those of `bin/pulsar standalone`."""
    planned = ["--data-dir", args.metadata_dir]
    config = args.config or environment.get("PULSAR_STANDALONE_CONF") or CONFIG
    if args.config or os.path.exists(config):
        planned += ["--broker-conf", config]
    if args.num_bookies is not None:
        planned += ["--bookies", str(args.num_bookies)]
    if args.metadata_url:
        planned += ["--metadata", args.metadata_url]
    if args.advertised_address:
        planned += ["--set", f"advertisedAddress={args.advertised_address}"]
    return planned


def parse_standalone(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of `bin/pulsar standalone`; SystemExit(2) says which is wrong."""
    parser = argparse.ArgumentParser(prog=f"{PROGRAM} {STANDALONE}", allow_abbrev=False)
    parser.add_argument("--config", "-c", default="", metavar="FILE", help=f"default: {CONFIG}")
    parser.add_argument("--advertised-address", "-a", default="", metavar="HOST", help="what lookups over HTTP name")
    parser.add_argument("--metadata-dir", default=DATA, metavar="DIR", help=f"where the data is  [default: {DATA}]")
    parser.add_argument("--metadata-url", default="", metavar="URL", help="a metadata store that runs elsewhere")
    parser.add_argument("--num-bookies", type=int, metavar="N", help="default: 1")
    parser.add_argument("--wipe-data", "-wd", action="store_true", help="remove the data first")
    for names in WITHOUT_EFFECT:
        parser.add_argument(*names, action="store_true", help="always so in this image")
    for name in OF_OTHER_PARTS:
        parser.add_argument(name, metavar="VALUE", help="without effect in this image")
    return parser.parse_args(arguments)


def _announce(addresses: StandaloneAddresses, output: str) -> None:
    print(READY)
    print_ready(addresses, output)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that is named; return its exit code."""
    command, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if command != STANDALONE:
        print(f"{PROGRAM}: {command!r} is not in this image: it has {PROGRAM} {STANDALONE}", file=sys.stderr)
        return 2
    args = parse_standalone(rest)
    if args.wipe_data:
        shutil.rmtree(args.metadata_dir, ignore_errors=True)
    return run_standalone(plan_standalone(args, os.environ), f"{PROGRAM} {STANDALONE}", _announce)


if __name__ == "__main__":
    sys.exit(main())
