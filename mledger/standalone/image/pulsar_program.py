"""`bin/pulsar` of Pulsar's image, with the original's options: `bin/pulsar standalone` and `bin/pulsar tokens`.

Each command imports what it needs when it runs, since programs that start containers wait for them.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from mledger.standalone.addresses import StandaloneAddresses
from mledger.standalone.errors import StandaloneError

PROGRAM = "bin/pulsar"
STANDALONE, TOKENS = "standalone", "tokens"
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
    from mledger.standalone.main import print_ready

    print(READY)
    print_ready(addresses, output)


def _run_standalone(arguments: Sequence[str]) -> int:
    from mledger.standalone.main import main as run

    program = f"{PROGRAM} {STANDALONE}"
    args = parse_standalone(arguments)
    planned = plan_standalone(args, os.environ)
    if args.wipe_data:
        try:
            _wipe(planned, program)
        except StandaloneError as error:
            print(f"{program} --wipe-data: {error}", file=sys.stderr)
            return 1
    return run(planned, program, _announce)


def _wipe(planned: Sequence[str], program: str) -> None:
    """Remove the data, once the other options are known to be right. StandaloneError, SystemExit(2)."""
    from mledger.standalone.directory import StandaloneDirectory
    from mledger.standalone.options import parse_standalone_options

    directory = StandaloneDirectory(parse_standalone_options(planned, program).data_dir)
    try:
        directory.wipe()
    finally:
        directory.close()


def _run_tokens(arguments: Sequence[str]) -> int:
    from mledger.metastore.errors import PackageNotInstalled
    from mledger.metastore.runtime.packages import check_authentication

    try:
        check_authentication()
    except PackageNotInstalled as error:
        print(f"{PROGRAM} {TOKENS}: {error}", file=sys.stderr)
        return 1
    from mledger.standalone.image.tokens_program import main as run

    return run(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that is named; return its exit code."""
    command, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if command == STANDALONE:
        return _run_standalone(rest)
    if command == TOKENS:
        return _run_tokens(rest)
    known = f"{PROGRAM} {STANDALONE} and {PROGRAM} {TOKENS}"
    print(f"{PROGRAM}: {command!r} is not in this image: it has {known}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
