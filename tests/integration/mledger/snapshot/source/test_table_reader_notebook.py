"""Runs the notebook of the documents, cell by cell, in a kernel of its own, as Jupyter does."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.aio import HANG_S

NOTEBOOK = Path(__file__).parents[5] / "docs" / "notebooks" / "metadata.ipynb"


@pytest.fixture(scope="module")
def printed():
    """What each code cell shows as text."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=HANG_S).execute()
    cells = [each for each in notebook.cells if each.cell_type == "code"]
    return ["".join(out.get("text") or out["data"]["text/plain"] for out in cell.outputs) for cell in cells]


def test_the_inspector_says_where_each_subscription_goes_on(printed):
    assert "orders 10 entries" in printed[2]
    assert printed[2].count("with a backlog of 10") == 2
    assert printed[2].count("with a backlog of 6") == 1


def test_tables_are_queried_where_the_notebooks_loop_runs(printed):
    assert "public/default" in printed[3]


def test_a_snapshot_answers_a_query(printed):
    assert "orders billing 6 entries of backlog" in printed[4]


def test_the_notebook_is_kept_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert [cell.outputs for cell in notebook.cells if cell.cell_type == "code"] == [[]] * 6
