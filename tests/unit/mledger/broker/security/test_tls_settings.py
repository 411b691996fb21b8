"""What TLS settings mean, and which are refused before anything starts."""

import pytest

from mledger.broker.security.tls_settings import BrokerTls, server_context, tls_settings
from mledger.metastore.errors import InvalidSetting
from mledger.metastore.runtime.settings import read_settings

FILES = ("tlsCertificateFilePath=c.pem", "tlsKeyFilePath=k.pem")


def read(*settings):
    return tls_settings(read_settings(None, settings))


def test_nothing_is_encrypted_by_default():
    assert read() == BrokerTls()
    assert not read().used


def test_ports_and_files():
    found = read("brokerServicePortTls=6651", "webServicePortTls=8443", *FILES, "tlsTrustCertsFilePath=a.pem")
    assert (found.port, found.web_port, found.files) == (6651, 8443, ("c.pem", "k.pem", "a.pem"))
    assert found.asks_for_certificates


def test_any_certificate_means_that_none_is_asked_for():
    found = read("brokerServicePortTls=0", *FILES, "tlsTrustCertsFilePath=a.pem", "tlsAllowInsecureConnection=true")
    assert not found.asks_for_certificates


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("brokerServicePortTls=6651",), "tlsCertificateFilePath and tlsKeyFilePath missing"),
        (("webServicePortTls=8443", FILES[0]), "tlsKeyFilePath missing"),
        (("brokerServicePortTls=65536",), "brokerServicePortTls is '65536'"),
        (("tlsRequireTrustedClientCertOnConnect=true",), "tlsTrustCertsFilePath"),
        (
            (
                "tlsRequireTrustedClientCertOnConnect=true",
                "tlsAllowInsecureConnection=true",
                "tlsTrustCertsFilePath=a.pem",
            ),
            "tlsAllowInsecureConnection",
        ),
        (("tlsProtocols=TLSv1.1",), "TLSv1.2, TLSv1.3"),
        (("tlsEnabledWithKeyStore=true",), "PEM files only"),
    ],
)
def test_settings_that_do_not_encrypt_are_refused(settings, message):
    with pytest.raises(InvalidSetting, match=message):
        read(*settings)


def test_an_error_names_the_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InvalidSetting, match=r"tlsCertificateFilePath .*none\.pem.*readable for the user"):
        server_context(BrokerTls(certificate=str(tmp_path / "none.pem"), key="k.pem"))
