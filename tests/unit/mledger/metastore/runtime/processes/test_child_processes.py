"""Where child Pythons find this distribution."""

import os

from mledger.metastore.runtime.processes.child_processes import plan_python_path, python_environment

INSTALLED = ["/venv/lib/python3.11/site-packages"]


def test_an_installed_distribution_needs_no_variable():
    assert plan_python_path(INSTALLED[0], "", INSTALLED) == ""


def test_the_user_s_path_stays_and_nothing_of_ours_comes_before_it():
    assert plan_python_path(INSTALLED[0], "/home/me/lib", INSTALLED) == "/home/me/lib"


def test_a_checkout_comes_first():
    assert plan_python_path("/checkout", "/home/me/lib", INSTALLED) == f"/checkout{os.pathsep}/home/me/lib"


def test_a_directory_in_the_path_is_not_named_twice():
    assert plan_python_path("/checkout", "/home/me/lib:/checkout", INSTALLED) == "/home/me/lib:/checkout"


def test_relative_entries_keep_their_meaning_when_the_child_is_elsewhere():
    assert plan_python_path("/checkout", "lib::", INSTALLED) == f"/checkout{os.pathsep}{os.path.abspath('lib')}"


def test_a_child_has_no_thread_for_linear_algebra(monkeypatch):
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert python_environment()["OPENBLAS_NUM_THREADS"] == "1"


def test_a_child_has_as_many_threads_for_linear_algebra_as_its_user_says(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    assert python_environment()["OPENBLAS_NUM_THREADS"] == "4"
