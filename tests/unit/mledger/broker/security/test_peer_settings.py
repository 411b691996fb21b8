"""How a broker shows others who it is."""

import pytest

from mledger.broker.security.peer_settings import PeerSettings, client_context, peer_settings
from mledger.metastore.errors import InvalidSetting
from mledger.metastore.runtime.settings import read_settings

PLUGIN = "brokerClientAuthenticationPlugin=org.apache.pulsar.client.impl.auth."
PARAMETERS = "brokerClientAuthenticationParameters="


def read(*settings):
    return peer_settings(read_settings(None, settings))


def test_by_default_it_shows_nothing():
    assert read() == PeerSettings()
    assert read().headers() == {}


@pytest.mark.parametrize(
    "settings",
    [
        ("brokerClientCertificateFilePath=/c.pem", "brokerClientKeyFilePath=/k.pem"),
        (f"{PLUGIN}AuthenticationTls", f"{PARAMETERS}tlsCertFile:/c.pem,tlsKeyFile:/k.pem"),
    ],
    ids=["files", "plugin"],
)
def test_a_certificate_is_named_by_its_files_or_by_the_plugin_for_tls(settings):
    found = read(*settings)
    assert (found.certificate, found.key) == ("/c.pem", "/k.pem")


@pytest.mark.parametrize("text", ["abc", "token:abc"])
def test_a_token_is_sent(text):
    assert read(f"{PLUGIN}AuthenticationToken", f"{PARAMETERS}{text}").headers() == {"authorization": "Bearer abc"}


@pytest.mark.parametrize("prefix", ["file:", "file://"])
def test_a_token_is_read_from_its_file_each_time(tmp_path, prefix):
    file = tmp_path / "token"
    found = read(f"{PLUGIN}AuthenticationToken", f"{PARAMETERS}{prefix}{file}")
    for token in ("one", "two"):
        file.write_text(f"{token}\n")
        assert found.headers() == {"authorization": f"Bearer {token}"}


def test_a_token_file_that_cannot_be_read_is_named(tmp_path):
    found = read(f"{PLUGIN}AuthenticationToken", f"{PARAMETERS}file://{tmp_path}/none")
    with pytest.raises(InvalidSetting, match=r"brokerClientAuthenticationParameters.*none"):
        found.headers()


def test_parameters_of_a_plugin_that_is_not_served_have_no_effect():
    assert read("brokerClientAuthenticationPlugin=com.example.Own", f"{PARAMETERS}token:abc") == PeerSettings()


def test_a_certificate_without_its_key_is_refused():
    with pytest.raises(InvalidSetting, match="belong together"):
        read("brokerClientCertificateFilePath=/c.pem")


@pytest.mark.parametrize(
    ("peers", "setting"),
    [
        (PeerSettings(authorities="/none.pem"), "brokerClientTrustCertsFilePath /none.pem"),
        (PeerSettings(certificate="/none.pem", key="/k.pem"), "brokerClientCertificateFilePath /none.pem"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(peers, setting):
    with pytest.raises(InvalidSetting, match=setting):
        client_context(peers)
