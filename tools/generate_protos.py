"""Generate the protobuf modules and their type stubs from `proto/`, or check that the committed ones are current.

Each module lands in the package that owns its format. Descriptor names are our own (`mledger/metastore/records/pb/…`,
package `mledger.…`), so that they meet no other distribution's in protobuf's pool; names do not go over the wire.

The modules do without protoc's check that the runtime is as new as itself: they hold descriptors of proto2, which every
runtime from 5.29 on builds messages of, and managed Spark brings old ones. A test reads and writes with the oldest.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
OWNERS = {
    "MLDataFormats": "mledger/metastore/records/pb",
    "LedgerMetadata": "mledger/metastore/records/pb",
    "MetadataStore": "mledger/metastore/records/pb",
    "SchemaStorage": "mledger/metastore/records/pb",
    "BookkeeperProtocol": "mledger/bookie/pb",
    "PulsarApi": "mledger/pb",
    "DelayedMessageIndex": "mledger/pb",
}
_RUNTIME_IMPORT = "from google.protobuf import runtime_version as _runtime_version\n"
_RUNTIME_CHECK = re.compile(r"^_runtime_version\.ValidateProtobufRuntimeVersion\([^)]*\)\n", re.MULTILINE)
SUFFIXES = ("_pb2.py", "_pb2.pyi")


def generate(target: Path) -> list[Path]:
    """Write all modules and stubs below `target`; returns their relative paths. SystemExit if protoc fails."""
    unowned = {path.stem for path in PROTO.glob("*.proto")} - set(OWNERS)
    if unowned:
        raise SystemExit(f"no package owns {', '.join(sorted(unowned))}: add it to OWNERS in tools/generate_protos.py")
    made = []
    for name, package in OWNERS.items():
        arguments = ["protoc", f"-I{package}={PROTO}", f"--python_out={target}", f"--mypy_out=quiet:{target}"]
        plugin = Path(sys.executable).parent / "protoc-gen-mypy"
        code = protoc.main([*arguments, f"--plugin=protoc-gen-mypy={plugin}", f"{package}/{name}.proto"])
        if code != 0:
            raise SystemExit(f"protoc failed on proto/{name}.proto with exit code {code}: see its message above")
        module = target / package / f"{name}_pb2.py"
        module.write_text(without_runtime_check(module.read_text()))
        made += [Path(package) / f"{name}{suffix}" for suffix in SUFFIXES]
    return made


def without_runtime_check(module: str) -> str:
    """A generated module without its check of the runtime's version; SystemExit if the check has another form."""
    shorter, checks = _RUNTIME_CHECK.subn("", module.replace(_RUNTIME_IMPORT, "", 1))
    if checks != 1:
        raise SystemExit(
            "protoc writes the check of the runtime's version in another form: update tools/generate_protos.py"
        )
    return shorter


def differing(target: Path) -> list[Path]:
    """The generated files that differ from the working tree, and the files in it that nothing generates."""
    made = generate(target)
    stale = [
        path
        for path in made
        if not (ROOT / path).exists() or (ROOT / path).read_bytes() != (target / path).read_bytes()
    ]
    for package in sorted(set(OWNERS.values())):
        stale += [
            found.relative_to(ROOT)
            for found in sorted((ROOT / package).glob("*_pb2.py*"))
            if found.relative_to(ROOT) not in made
        ]
    return stale


def main() -> int:
    """Generate, or with `--check` compare; returns 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="fail if committed modules differ from those generated from proto/"
    )
    if not parser.parse_args().check:
        for path in generate(ROOT):
            print(path)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        stale = differing(Path(scratch))
    for path in stale:
        print(f"{path} differs from what proto/ generates: run make proto and commit it", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
