"""Which test checks which golden file, and which files wait for a later part of the project.

`tests/unit/golden/test_golden_coverage.py` fails for a file in neither table, for a pattern without a file, and for a
test module that does not exist or does not name the files given to it here.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class CheckedFiles:
    """Files below `tests/golden/` that match `pattern`, but not `but`, and the modules that each check all of them."""

    pattern: str
    modules: tuple[str, ...]
    but: str = ""


@dataclass(frozen=True)
class UncheckedFiles:
    """Files that no test checks yet, and the part of the project that will."""

    pattern: str
    waits_for: str


_ZNODES = "tests/unit/mledger/metastore/records/test_golden_znodes.py"
_CLUSTER = "tests/unit/mledger/metastore/cluster/test_golden_cluster.py"
_ENTRIES = "tests/unit/mledger/bookie/test_golden_entries.py"
_SCENARIOS = "tests/unit/mledger/test_golden_scenarios.py"
_BEHAVIOURS = "tests/unit/mledger/cursors/test_golden_behaviours.py"
_WIRE = "tests/unit/mledger/bookie/test_golden_wire.py"
_RECOVERY = "tests/integration/mledger/bookie/client/ledgers/test_ledger_recovery_golden.py"
_PROTOCOL = "tests/unit/mledger/broker/protocol"
_ZOOKEEPER_FILES = "tests/unit/mledger/snapshot/zookeeper_files/test_golden_zookeeper_files.py"

CHECKED = (
    CheckedFiles("digests.json", ("tests/unit/mledger/bookie/test_digest_golden.py",)),
    CheckedFiles("records/*.json", ("tests/unit/mledger/metastore/records/test_codec_golden.py",)),
    CheckedFiles("znodes/bk-*.json", (_CLUSTER,)),
    CheckedFiles("znodes/bk-ledgers-*.json", (_CLUSTER, _ENTRIES)),
    CheckedFiles("znodes/[!b]*.json", (_ZNODES, _SCENARIOS, _BEHAVIOURS)),
    CheckedFiles("behaviours/*.json", (_ZNODES, _SCENARIOS, _BEHAVIOURS)),
    CheckedFiles("entries/*.json", (_ENTRIES, _SCENARIOS)),
    CheckedFiles("wire/v[23]-*.json", (_WIRE,)),
    CheckedFiles("wire/raw-*.json", (_WIRE,)),
    CheckedFiles("wire/recovery-*.json", (_RECOVERY,)),
    CheckedFiles("wire/zk-readonly-bookie.json", (_CLUSTER,)),
    CheckedFiles("zookeeper-files/*.json", (_ZOOKEEPER_FILES,)),
    CheckedFiles("zookeeper-files/*/version-2/*", (_ZOOKEEPER_FILES,)),
    CheckedFiles("pulsar-frames/ack-sets-*.json", ("tests/unit/mledger/cursors/acks/test_ack_state_golden.py",)),
    CheckedFiles("pulsar-frames/frames-*.json", (f"{_PROTOCOL}/test_receiver.py", f"{_PROTOCOL}/test_answers.py")),
    CheckedFiles("pulsar-frames/entries-*.json", (f"{_PROTOCOL}/test_entry_facts.py",)),
    CheckedFiles("schemas/avro-reads.json", ("tests/unit/mledger/broker/schemas/test_avro_resolution.py",)),
    CheckedFiles("topic-policies/change-events.json", ("tests/unit/mledger/admin/policies/test_policy_events.py",)),
)

WAITING: tuple[UncheckedFiles, ...] = ()
