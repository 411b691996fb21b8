"""The JSON of requests is checked before anything is written."""

import pytest

from mledger.broker.admin_rest.body_checks import boolean, count, known_fields, names, number, number_of, texts
from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.requests import AdminRequest


def status_of(check, *args, **more):
    with pytest.raises(AdminRefusal) as caught:
        check(*args, **more)
    return caught.value.status


def test_a_number_is_an_integer_in_range():
    assert number_of(3, "n", low=0) == 3
    assert number_of("-1", "n", low=-1) == -1
    assert status_of(number_of, -1, "n", low=0) == 412
    assert [number_of(each, "n", low=0) for each in (1.9, " 7 ", 1e2)] == [1, 7, 100]
    for wrong in (True, "1.5", None, [], "x", "--1", 2**31, "9" * 5000):
        assert status_of(number_of, wrong, "n", low=0) == 400


def test_nothing_unsets_a_count():
    assert count("n")(None) is None
    assert count("n")("") is None
    assert number("n")(None) == 0
    assert status_of(number("n"), []) == 400
    assert count("n", most=2**63 - 1)(2**62) == 2**62


def test_true_and_false_may_be_text():
    assert [boolean("b")(each) for each in (True, "true", "False")] == [True, True, False]
    assert [boolean("b")(each) for each in (None, "", 0, -3)] == [False, False, False, True]
    for wrong in ("yes", 1.5, []):
        assert status_of(boolean("b"), wrong) == 400


def test_other_types_are_bad_requests():
    assert status_of(names, ["a", 1], "n") == 400
    assert status_of(texts, {"a": [1]}, "t") == 400
    assert texts(None, "t") == {}
    assert texts({"a": True, "b": 1.5, "c": None, "d": "x"}, "t") == {"a": "true", "b": "1.5", "d": "x"}


def test_a_record_has_its_fields_and_their_types():
    defaults = {"a": 1, "b": 0.5, "c": False}
    assert known_fields({"a": 2, "b": 1, "other": "x"}, "r", defaults) == {"a": 2, "b": 1, "c": False}
    assert known_fields({"a": None, "c": 1}, "r", defaults) == {"a": 0, "b": 0.5, "c": True}
    assert known_fields({"a": 1.7, "c": None}, "r", defaults) == {"a": 1, "b": 0.5, "c": False}
    assert [known_fields({"b": each}, "r", defaults)["b"] for each in ("1.5", " -2e1 ", None, "")] == [1.5, -20, 0, 0]
    for wrong in ("NaN", "1e999", "1.5f", True):
        assert status_of(known_fields, {"b": wrong}, "r", defaults) == 400
    assert status_of(known_fields, {"a": [2]}, "r", defaults) == 400
    assert status_of(known_fields, [], "r", defaults) == 400


def test_integers_of_a_record_are_as_large_as_java_reads_them():
    defaults = {"a": 0, "b": 0, "c": 0.0}
    most = {"a": 2**31 - 1, "b": 2**63 - 1, "c": 2**63 - 1}
    assert known_fields(most, "r", defaults, ["b"]) == most
    for name, value in most.items():
        assert status_of(known_fields, {name: value + 1}, "r", defaults, ["b"]) == 400
        assert status_of(known_fields, {name: -value - 2}, "r", defaults, ["b"]) == 400


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_java_does_not_read_is_no_json(number):
    assert status_of(AdminRequest("POST", "/", body=f'{{"a":{number}}}'.encode()).json) == 400


@pytest.mark.parametrize(
    ("given", "expected"),
    [({"limit": "10240", "on": "true"}, {"limit": 10240, "on": True}), ({"limit": -1}, {"limit": -1, "on": False})],
)
def test_numbers_and_booleans_of_a_record_may_be_text(given, expected):
    assert known_fields(given, "a limit", {"limit": 0, "on": False}) == expected


@pytest.mark.parametrize("given", [{"limit": "ten"}, {"limit": "99999999999"}, {"on": "yes"}])
def test_text_that_is_no_number_or_boolean_is_a_bad_request(given):
    with pytest.raises(AdminRefusal):
        known_fields(given, "a limit", {"limit": 0, "on": False})


def test_a_body_that_is_required_is_not_empty():
    assert status_of(AdminRequest("POST", "/", body=b" ").json, required=True) == 400
    assert AdminRequest("POST", "/", body=b"null").json(required=True) is None


@pytest.mark.parametrize(
    "text", [rb'{"a":"\ud800"}', rb'{"a":"\uDC00\ud800"}', b'{"a":"\xed\xa0\x80"}', rb'{"\udfff":1}']
)
def test_half_a_pair_of_surrogates_is_no_json(text):
    assert status_of(AdminRequest("POST", "/", body=text).json) == 400


def test_whole_pairs_and_other_encodings_are_read():
    assert AdminRequest("POST", "/", body=rb'{"a":"\ud83d\ude00"}').json() == {"a": "\U0001f600"}
    assert AdminRequest("POST", "/", body='{"a":"b"}'.encode("utf-16")).json() == {"a": "b"}
