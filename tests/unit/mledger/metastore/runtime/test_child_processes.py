"""Where child Pythons find this distribution."""

import os

from mledger.metastore.runtime.child_processes import plan_python_path

INSTALLED = ["/venv/lib/python3.11/site-packages"]


def test_what_is_installed_needs_no_variable():
    assert plan_python_path(INSTALLED[0], "", INSTALLED) == ""


def test_what_users_have_on_their_path_stays_there_behind_nothing_of_ours():
    assert plan_python_path(INSTALLED[0], "/home/me/lib", INSTALLED) == "/home/me/lib"


def test_a_checkout_comes_first():
    assert plan_python_path("/checkout", "/home/me/lib", INSTALLED) == f"/checkout{os.pathsep}/home/me/lib"


def test_a_directory_that_the_path_names_is_not_named_twice():
    assert plan_python_path("/checkout", "/home/me/lib:/checkout", INSTALLED) == "/home/me/lib:/checkout"


def test_relative_entries_mean_what_they_meant_where_the_child_is_not():
    assert plan_python_path("/checkout", "lib::", INSTALLED) == f"/checkout{os.pathsep}{os.path.abspath('lib')}"
