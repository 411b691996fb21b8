"""Files of Iceberg's metadata that belong to no version any more are removed, and no others."""

import os
from functools import partial

from mledger.snapshot.exports.iceberg_files import plan_suspects, remove_leftovers
from mledger.snapshot.exports.iceberg_tables import HOME
from mledger.snapshot.exports.manifest import ICEBERG
from tests.support.cli import answer
from tests.support.snapshots.exports import write_snapshot
from tests.support.snapshots.iceberg_tables import iceberg_table, names, topics
from tests.support.snapshots.snapshot_pairs import HOUR, NOW


def test_only_names_of_exports_are_suspected_and_only_of_unknown_versions():
    found = ["1-m0.avro", "snap-1.avro", "2-m0.avro", "snap-2.avro", "2-m1.avro", "snap-2-1-a.avro", "v2.metadata.json"]
    assert plan_suspects(found, [1], ()) == ["2-m0.avro", "snap-2.avro"]


def test_states_that_the_catalog_does_not_name_are_suspected():
    found = [f"0000{number}-6eb36c62-97b7-4c95-a1dd-e1f8a3b2{number:04d}.metadata.json" for number in (1, 2)]
    assert plan_suspects([*found, "00002.metadata.json"], [], found[:1]) == found[1:]


def test_what_a_killed_export_left_of_a_version_is_removed_by_the_next_and_nothing_else(tmp_path):
    write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG, topics=topics("a"))
    home = tmp_path / HOME / "topics" / "metadata"
    whole = {path.name for path in home.iterdir()}
    state = "00001-6eb36c62-97b7-4c95-a1dd-e1f8a3b24913.metadata.json"
    left, others = ("17-m0.avro", "snap-17.avro", state), ("17-m1.avro", "snap-17-1-a.avro", "18-m0.avro")
    for name in (*left, *others):
        (home / name).write_bytes(b"cut o")
        if name != "18-m0.avro":  # an export that is on its way may have written that
            os.utime(home / name, (0, 0))
    write_snapshot(tmp_path, "tuesday", NOW + HOUR, file_format=ICEBERG, topics=topics("b"))
    found = {path.name for path in home.iterdir()}
    assert whole | set(others) < found
    assert not found & set(left)
    assert answer("snapshot", "verify", tmp_path)["whole"]


def test_leftovers_beside_a_damaged_version_stay_and_take_no_export(tmp_path):
    write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG, topics=topics("a"))
    home = tmp_path / HOME / "topics" / "metadata"
    next(home.glob("snap-*.avro")).write_bytes(b"cut o")
    (home / "17-m0.avro").touch()
    os.utime(home / "17-m0.avro", (0, 0))
    write_snapshot(tmp_path, "tuesday", NOW + HOUR, file_format=ICEBERG, topics=topics("b"))
    assert (home / "17-m0.avro").exists()


def test_leftovers_in_a_catalog_that_cannot_be_read_take_no_export():
    def refuse():
        raise OSError("database is locked")

    remove_leftovers(refuse)


def test_files_that_a_version_of_another_writer_names_stay(tmp_path):
    write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG, topics=topics("a"))
    table = iceberg_table(tmp_path)
    (monday,) = table.snapshots()
    table.append(table.scan().to_arrow())
    updates = table.maintenance.expire_snapshots()
    table.manage_snapshots().remove_tag("monday").commit()
    updates.by_id(monday.snapshot_id).commit()
    for path in (tmp_path / HOME / "topics" / "metadata").iterdir():
        os.utime(path, (0, 0))
    remove_leftovers(partial(iceberg_table, tmp_path))
    assert names(iceberg_table(tmp_path)) == ["a", "a"]
