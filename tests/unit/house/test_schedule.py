"""What a worker of a test run takes together, and what first."""

from tests.support.schedule import rank, scope_of


def test_a_file_goes_to_one_worker():
    assert scope_of("tests/unit/house/test_site.py::test_one[a::b]") == "tests/unit/house/test_site.py"


def test_files_that_need_the_pulsar_broker_go_to_one_worker():
    files = ("tests/interop/test_pulsar_owner.py", "tests/interop/test_pulsar_broker.py")
    assert len({scope_of(f"{file}::test_one") for file in files}) == 1


def test_long_suites_come_first_and_then_the_files_with_more_tests():
    scopes = {"tests/unit/a.py": 3, "tests/unit/b.py": 30, "tests/faults/test_x.py": 1, "tests/interop/test_y.py": 2}
    ordered = sorted(scopes, key=lambda scope: rank(scope, scopes[scope]))
    assert ordered == ["tests/faults/test_x.py", "tests/interop/test_y.py", "tests/unit/b.py", "tests/unit/a.py"]
