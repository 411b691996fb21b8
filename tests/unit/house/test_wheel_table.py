"""`docs/explanation/dependencies.md` describes the wheels of the versions that CI installs."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = "<!-- wheels -->\n{}<!-- /wheels -->\n"
VERSIONS = {"click": "8.5.1", "numpy": "2.4.6"}
NUMPY = "numpy-2.4.6-cp313-cp313-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl"
CLICK = "click-8.5.1-py3-none-any.whl"
FOUND = {
    ("x86_64", "3.13"): {"click": CLICK, "numpy": NUMPY},
    ("x86_64", "3.14"): {"click": CLICK},
}


@pytest.fixture(scope="module")
def tool():
    """`tools/wheel_table.py`."""
    spec = importlib.util.spec_from_file_location("wheel_table", ROOT / "tools/wheel_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_current(tool, capsys):
    assert tool.main(["--check"]) == 0, capsys.readouterr().err


def test_dependencies_have_their_pinned_versions_by_normalized_name(tool):
    optional = {extra: ["PyArrow>=18.0"] for extra in tool.EXTRAS}
    project = {"dependencies": ["tomli-w>=1.2", "uvloop; sys_platform != 'win32'"], "optional-dependencies": optional}
    pins = "tomli_w==1.2.0\nuvloop==0.23.0; x\npyarrow==26.0.1\nruff==0.17.5\n"
    expected = {"pyarrow": "26.0.1", "tomli-w": "1.2.0", "uvloop": "0.23.0"}
    assert tool.dependencies({"project": project}, pins) == expected


def test_a_native_package_has_a_row_and_its_gap_is_named(tool):
    table = tool.plan_table(VERSIONS, FOUND)
    assert "| numpy | 2.4.6 | 2.27 | **none** |\n" in table
    assert "No wheel: numpy 2.4.6 on Python 3.14, x86-64.\n" in table
    assert table.endswith("The same on every platform: click.\n")


@pytest.mark.parametrize(
    ("wheel", "expected"),
    [
        (NUMPY, "2.27"),
        ("psutil-7.2.2-cp36-abi3-manylinux2010_x86_64.manylinux_2_28_x86_64.whl", "2.12"),
        ("old-1.0-cp311-cp311-manylinux1_x86_64.whl", "2.5"),
        (CLICK, ""),
    ],
)
def test_the_oldest_glibc_is_read_from_the_names_of_platforms(tool, wheel, expected):
    assert tool.glibc(wheel) == expected


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (VERSIONS, []),
        (VERSIONS | {"click": "9.0"}, []),
        (VERSIONS | {"numpy": "3.0"}, ["numpy 3.0"]),
        (VERSIONS | {"rocksdict": "0.3.29"}, ["rocksdict"]),
        ({"numpy": "2.4.6"}, ["click"]),
    ],
    ids=["current", "a version of pure Python", "another version", "one more", "one less"],
)
def test_a_table_with_other_packages_or_native_versions_is_stale(tool, versions, expected):
    assert tool.stale(PAGE.format(tool.plan_table(VERSIONS, FOUND)), versions) == expected


def test_a_page_without_the_markers_is_stale(tool):
    assert tool.stale("# Dependencies\n", VERSIONS) == ["no markers"]
