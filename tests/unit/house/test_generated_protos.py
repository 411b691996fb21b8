"""The committed protobuf modules match proto/, and the check notices when they do not."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent.parent
PARTS = ("proto", "tools", "mledger/metastore/records/pb", "mledger/bookie/pb", "mledger/pb")


@pytest.fixture
def checkout(tmp_path):
    for part in PARTS:
        (tmp_path / part).mkdir(parents=True)
        for file in (ROOT / part).glob("*.p*"):
            (tmp_path / part / file.name).write_bytes(file.read_bytes())
    return tmp_path


def check(checkout):
    command = [sys.executable, "tools/generate_protos.py", "--check"]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)


def test_the_committed_modules_are_up_to_date(checkout):
    result = check(checkout)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_changed_contract_is_noticed(checkout):
    contract = checkout / "proto" / "LedgerMetadata.proto"
    contract.write_text(contract.read_text().replace("ctime = 10", "ctime = 13"))
    result = check(checkout)
    assert result.returncode == 1
    assert "mledger/metastore/records/pb/LedgerMetadata_pb2.py differs from what proto/ generates" in result.stderr


def test_a_module_that_nothing_generates_is_noticed(checkout):
    (checkout / "mledger" / "bookie" / "pb" / "Old_pb2.py").write_text("")
    assert "Old_pb2.py" in check(checkout).stderr


def test_a_contract_without_an_owner_is_noticed(checkout):
    (checkout / "proto" / "New.proto").write_text('syntax = "proto2";\n')
    result = check(checkout)
    assert result.returncode != 0
    assert "no package owns New" in result.stderr
