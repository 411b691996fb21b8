"""The plan of a new topic."""

import pytest

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.console.changes.namespace_changes import plan_created
from mledger.metastore.errors import InvalidName


def test_a_topic_is_created_with_or_without_partitions():
    plain = plan_created("a/b", "c/d", 0, ())
    assert (plain.request.path, plain.request.body) == ("/admin/v2/persistent/a/b/c%2Fd", None)
    whole = plan_created("a/b", "c", 3, ())
    assert (whole.request.path, whole.request.body) == ("/admin/v2/persistent/a/b/c/partitions", 3)


def test_a_name_that_is_none_or_taken_is_refused():
    with pytest.raises(InvalidName):
        plan_created("a/b", "", 0, ())
    with pytest.raises(AdminRefusal, match="already"):
        plan_created("a/b", "c", 0, {"persistent://a/b/c"})
