"""The role that counts in a certificate is the one that BookKeeper's CertUtils finds first."""

import pytest

from mledger.bookie.server.serving.certificate_roles import CertificateRoles, role_of


def certificate(*units):
    """A verified certificate, as `getpeercert` gives it."""
    names = [(("countryName", "DE"),), *((("organizationalUnitName", unit),) for unit in units)]
    return {"subject": (*names, (("commonName", "client"),))}


@pytest.mark.parametrize(
    ("units", "role"),
    [
        (("0:broker",), "broker"),
        (("0: broker , reader;1:cluster",), "broker"),
        (("1:cluster;0:broker",), "broker"),
        (("0:first;0:second",), "second"),
        (("0:first", "0:second"), "first"),
        (("0:a:b",), "a:b"),
        (("0:",), ""),
        (("0:,broker",), ""),
        (("00:broker",), ""),
        ((" 0:broker",), ""),
        (("broker",), ""),
        ((), ""),
    ],
)
def test_the_role_in_the_organizational_unit(units, role):
    assert role_of(certificate(*units)) == role


@pytest.mark.parametrize(
    ("other", "role"),
    [("userId", "broker"), ("stateOrProvinceName", "broker"), ("commonName", ""), ("emailAddress", "")],
)
def test_of_a_part_with_several_attributes_the_first_by_name_counts(other, role):
    unit = (("organizationalUnitName", "0:broker"), (other, "x"))
    assert role_of({"subject": (unit, (("commonName", "client"),))}) == role
    assert role_of({"subject": (unit[::-1],)}) == role


def test_only_an_authorized_role_is_let_in():
    roles = CertificateRoles(("broker", "auditor"))
    assert roles.refusal(certificate("0:auditor")) == ""
    assert "its role reader is none of authorizedRoles" in roles.refusal(certificate("0:reader"))
    assert "has no role" in roles.refusal(certificate("broker"))
    assert "no certificate" in roles.refusal(None)
