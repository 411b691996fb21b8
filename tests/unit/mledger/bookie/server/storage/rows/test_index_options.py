"""When the files of the index are joined, and what of it is in memory only."""

from rocksdict import Options, Rdict

from mledger.bookie.server.storage.rows.index_options import MANY_FILES, plan_joining, unwritten_of

FULL = 16 << 20


def test_small_files_are_joined_once_there_are_many():
    files = [[0] * 6 + [MANY_FILES - 1], [1] + [0] * 5 + [MANY_FILES - 1]]
    assert [plan_joining(each, sum(each) * 1000) for each in files] == [False, True]


def test_full_files_are_left_alone_and_a_large_family_waits_for_more_small_ones():
    full = 64
    assert not plan_joining([full + MANY_FILES], (full + MANY_FILES) * FULL)
    assert [plan_joining([full + small], full * FULL) for small in (MANY_FILES, 8 * full)] == [False, True]


def test_what_a_flush_would_write_is_known(tmp_path):
    index = Rdict(str(tmp_path / "index"), Options(raw_mode=True))
    before = unwritten_of([index])
    for number in range(100):
        index[b"%d" % number] = bytes(1000)
    assert unwritten_of([index, index])[1] > before[0] + 100_000
    index.flush()
    assert unwritten_of([index]) == before
    index.close()
