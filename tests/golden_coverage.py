"""Which test checks which golden file, and which files wait for a later part of the project.

`tests/unit/golden/test_golden_coverage.py` fails for a file in neither table, for a pattern without a file, and for a
test module that does not exist or does not name the files given to it here.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Checked:
    """Files below `tests/golden/` that match `pattern`, but not `but`, and the modules that each check all of them."""

    pattern: str
    modules: tuple[str, ...]
    but: str = ""


@dataclass(frozen=True)
class Waiting:
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
    Checked("digests.json", ("tests/unit/mledger/bookie/test_digest_golden.py",)),
    Checked("records/*.json", ("tests/unit/mledger/metastore/records/test_codec_golden.py",)),
    Checked("znodes/bk-*.json", (_CLUSTER,)),
    Checked("znodes/bk-ledgers-*.json", (_CLUSTER, _ENTRIES)),
    Checked("znodes/[!b]*.json", (_ZNODES, _SCENARIOS, _BEHAVIOURS)),
    Checked("behaviours/*.json", (_ZNODES, _SCENARIOS, _BEHAVIOURS)),
    Checked("entries/*.json", (_ENTRIES, _SCENARIOS)),
    Checked("wire/v[23]-*.json", (_WIRE,)),
    Checked("wire/raw-*.json", (_WIRE,)),
    Checked("wire/recovery-*.json", (_RECOVERY,)),
    Checked("wire/zk-readonly-bookie.json", (_CLUSTER,)),
    Checked("zookeeper-files/*.json", (_ZOOKEEPER_FILES,)),
    Checked("zookeeper-files/*/version-2/*", (_ZOOKEEPER_FILES,)),
    Checked("pulsar-frames/ack-sets-*.json", ("tests/unit/mledger/cursors/acks/test_ack_state_golden.py",)),
    Checked("pulsar-frames/frames-*.json", (f"{_PROTOCOL}/test_receiver.py", f"{_PROTOCOL}/test_answers.py")),
    Checked("pulsar-frames/entries-*.json", (f"{_PROTOCOL}/test_entry_facts.py",)),
    Checked("schemas/avro-reads.json", ("tests/unit/mledger/broker/schemas/test_avro_resolution.py",)),
    Checked("topic-policies/change-events.json", ("tests/unit/mledger/admin/policies/test_policy_events.py",)),
)

WAITING: tuple[Waiting, ...] = ()
