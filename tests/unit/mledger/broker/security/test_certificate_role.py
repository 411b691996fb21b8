"""The role in a certificate is the one that AuthenticationProviderTls finds: what Java 17 said of each is here."""

import pytest

from mledger.broker.security.certificate_role import role_of

CN, ORGANIZATION, UNIT = "commonName", "organizationName", "organizationalUnitName"


def named(*parts):
    """A verified certificate, as `getpeercert` gives it, with these parts of the subject."""
    return {"subject": tuple(parts)}


def one(kind, value):
    return ((kind, value),)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("billing", "billing"),
        ("billing, west", "billing\\"),
        ("a=b", "a\\=b"),
        ("a+b", "a\\+b"),
        (" lead ", "\\ lead\\ "),
        ("  ", "\\ \\ "),
        ("#hash", "\\#hash"),
        ('quo"te;<x>', 'quo\\"te\\;\\<x\\>'),
        ("back\\slash", "back\\\\slash"),
        ("\u00fcn\u00ef", "\u00fcn\u00ef"),
        ("", ""),
    ],
)
def test_the_common_name_as_java_writes_it(name, role):
    assert role_of(named(one("countryName", "DE"), one(CN, name))) == role


@pytest.mark.parametrize(
    ("parts", "role"),
    [
        ((one(CN, "one"), one(CN, "two")), "two"),
        ((one(CN, "one"), one(CN, "")), "one"),
        ((one(CN, "plain"), one(ORGANIZATION, "x,CN=admin")), "plain"),
        ((one(ORGANIZATION, "x,CN=admin"),), ""),
        ((one(CN, "a"), one("emailAddress", "x@y")), "a"),
        ((((CN, "a"), (UNIT, "b")),), "a+OU=b"),
        ((((UNIT, "b"), (CN, "a")),), ""),
        ((), ""),
    ],
)
def test_the_part_that_counts(parts, role):
    assert role_of(named(*parts)) == role


def test_a_part_whose_text_is_not_known_names_nobody():
    assert role_of(named(one(CN, "a"), ((CN, "x"), ("surname", "s")))) == ""
    assert role_of(named(((CN, "x"), ("surname", "s")))) == ""


def test_no_certificate_has_no_role():
    assert role_of(None) == ""
