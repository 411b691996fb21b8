"""What a client's TLS settings mean, and which are refused before anything starts."""

import pytest

from mledger.bookie.client.tls_settings import (
    VARIABLE,
    BookieTls,
    bookie_tls,
    bookie_tls_of_environment,
    client_context,
)
from mledger.metastore.errors import InvalidSetting
from mledger.metastore.runtime.settings import read_settings

ON = "bookkeeperTLSClientAuthentication=true"
FILES = (
    "bookkeeperTLSCertificateFilePath=c.pem",
    "bookkeeperTLSKeyFilePath=k.pem",
    "bookkeeperTLSTrustCertsFilePath=a.pem",
)


def read(*settings):
    return bookie_tls(read_settings(None, settings))


def test_connections_are_plain_unless_clients_show_certificates():
    assert read() is None
    assert read(*FILES, "bookkeeperTLSKeyFileType=JKS") is None


def test_files_and_times():
    found = read(ON, *FILES, "bookkeeperTLSKeyStorePasswordPath=p", "bookkeeperTlsCertFilesRefreshDurationSeconds=0")
    assert found == BookieTls("c.pem", "k.pem", "a.pem", "p", refresh_s=0)
    assert found.files == ("c.pem", "k.pem", "a.pem", "p")
    assert read(ON, *FILES, "bookkeeper_tlsHostnameVerificationEnabled=true").verify_hostname


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((ON,), "bookkeeperTLSCertificateFilePath, bookkeeperTLSKeyFilePath, bookkeeperTLSTrustCertsFilePath not set"),
        ((ON, *FILES, "bookkeeperTLSKeyFileType=JKS"), "bookkeeperTLSKeyFileType is 'JKS': this client reads PEM"),
        ((ON, *FILES, "bookkeeperTLSTrustCertTypes=PKCS12"), "PEM files only"),
        ((ON, *FILES, "bookkeeperTLSProviderFactoryClass=org.example.Tls"), "BookKeeper's own TLS only"),
        (
            ("bookkeeperClientAuthenticationPlugin=org.apache.bookkeeper.sasl.SASLClientProviderFactory",),
            "no SASL, Kerberos or other plug-in",
        ),
    ],
)
def test_what_cannot_be_is_refused(settings, message):
    with pytest.raises(InvalidSetting) as refused:
        read(*settings)
    assert message in str(refused.value)


def test_the_environment_names_a_file(tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text("\n".join((ON, *FILES, "brokerServicePort=6650")))
    assert bookie_tls_of_environment({VARIABLE: str(path)}) == BookieTls("c.pem", "k.pem", "a.pem")
    assert bookie_tls_of_environment({}) is None
    path.write_text("brokerServicePort=6650")
    with pytest.raises(InvalidSetting, match=r"broker\.conf does not set bookkeeperTLSClientAuthentication=true"):
        bookie_tls_of_environment({VARIABLE: str(path)})


def test_a_file_that_cannot_be_used_is_named(tmp_path):
    missing = str(tmp_path / "missing.pem")
    with pytest.raises(InvalidSetting, match=r"bookkeeperTLSTrustCertsFilePath .*missing\.pem"):
        client_context(BookieTls("c.pem", "k.pem", missing))
