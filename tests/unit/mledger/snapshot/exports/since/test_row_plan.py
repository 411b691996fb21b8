"""What becomes of the rows of an older snapshot: where they do not tell enough, the export is a full one."""

import pytest

from mledger.snapshot.exports.errors import AmbiguousRows
from mledger.snapshot.exports.since.row_plan import plan_nodes, plan_rows
from mledger.snapshot.source.options import parse_options
from mledger.snapshot.zookeeper_files.errors import LogDoesNotFit
from mledger.snapshot.zookeeper_files.transactions.node_updates import NodeUpdate, WrittenData

PARTITIONED = "/admin/partitioned-topics/t/n/persistent/p"
MARK = "/ledgers/underreplication/ledgers/0000/0000/0000/0001/urL0000000001"
TOPIC = "/managed-ledgers/t/n/persistent/"


def options(**more):
    return parse_options({"metadata": "file:///backup", **more})


def written(path, data):
    return {path: NodeUpdate(before=True, written=WrittenData(data, 1, 1000, 7))}


@pytest.mark.parametrize(("path", "data"), [(PARTITIONED, b'{"partitions":1}'), (MARK, b"")])
def test_a_node_that_comes_into_the_exported_part_has_no_older_row(path, data):
    asked = options(tenant="t")
    nodes, _ = plan_nodes(written(path, data), asked)
    with pytest.raises(AmbiguousRows, match=f"{path} was not in the exported part before"):
        plan_rows(nodes, {}, {}, asked)


def test_in_an_export_of_everything_each_older_node_has_a_row():
    nodes, _ = plan_nodes(written(PARTITIONED, b'{"partitions":1}'), options())
    with pytest.raises(LogDoesNotFit, match="has 0 rows of it"):
        plan_rows(nodes, {}, {}, options())


@pytest.mark.parametrize("update", [NodeUpdate(before=True, there=False), NodeUpdate(before=True, children=1)])
def test_a_path_that_rows_show_with_escapes_is_not_looked_up(update):
    with pytest.raises(AmbiguousRows, match=r"t/n/persistent/\\ud800' is not Unicode"):
        plan_nodes({f"{TOPIC}\ud800": update}, options())
