"""What the file named in a ZooKeeper URL can contain, and what is refused."""

import pytest

from mledger.metastore.errors import InvalidMetadataUrl
from mledger.metastore.url import ZooKeeperUrl, parse_url
from mledger.metastore.zookeeper.security import (
    CREATOR,
    WORLD,
    AclEntry,
    SaslLogin,
    Security,
    Tls,
    parse_security,
    read_security,
)


def test_an_empty_file_means_an_open_ensemble():
    assert parse_security("\n# a comment\n") == Security((), None, None, WORLD)


def test_digests_and_their_own_nodes():
    security = parse_security("digest = me:secret:with=signs\ndigest=other:word\nacl = creator\n")
    assert security == Security(("me:secret:with=signs", "other:word"), None, None, CREATOR)
    assert parse_security("digest=me:secret\nzkEnableSecurity=true") == Security(("me:secret",), acl=CREATOR)


def test_an_acl_is_written_as_zkcli_does():
    security = parse_security("acl = digest:me:hash=:cdrwa, world:anyone:r, ip:127.0.0.1:rw")
    assert security.acl == (
        AclEntry("digest", "me:hash=", "cdrwa"),
        AclEntry("world", "anyone", "r"),
        AclEntry("ip", "127.0.0.1", "rw"),
    )


def test_sasl():
    text = "sasl.mechanism=DIGEST-MD5\nsasl.username=me\nsasl.password=secret"
    assert parse_security(text).sasl == SaslLogin("DIGEST-MD5", "me", "secret", "zookeeper")
    assert parse_security("sasl.mechanism=GSSAPI\nsasl.service=zk").sasl == SaslLogin("GSSAPI", "", "", "zk")


def test_tls_files_are_beside_the_configuration(tmp_path):
    for name in ("ca.pem", "me.pem"):
        (tmp_path / name).write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "zk.conf").write_text(
        "zookeeper.client.secure=true\nzookeeper.ssl.trustStore.location=ca.pem\n"
        f"zookeeper.ssl.keyStore.location={tmp_path}/me.pem\nzookeeper.ssl.keyStore.password=secret\n"
        "zookeeper.ssl.hostnameVerification=FALSE\n"
    )
    security = read_security(str(tmp_path / "zk.conf"))
    assert security.tls == Tls(f"{tmp_path}/ca.pem", f"{tmp_path}/me.pem", "secret", check_hostname=False)
    assert parse_security("zookeeper.client.secure=true").tls == Tls()
    assert parse_security("zookeeper.client.secure=false").tls is None


def test_secrets_are_in_no_representation():
    text = "digest=me:secret\nsasl.mechanism=DIGEST-MD5\nsasl.username=me\nsasl.password=secret"
    assert "secret" not in repr(parse_security(text))
    assert "secret" not in repr(Tls(password="secret"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("digset=me:secret", "line 1: 'digset' is none of"),
        ("# all\nno separator", "line 2"),
        ("digest=secret", "user:password"),
        ("acl=creator", "does not log in"),
        ("acl=world:anyone", "scheme:id:permissions"),
        ("acl=world:anyone:rx", "scheme:id:permissions"),
        ("acl=world:anyone:r\nacl=world:anyone:w", "twice"),
        ("sasl.mechanism=PLAIN", "DIGEST-MD5, GSSAPI"),
        ("sasl.mechanism=DIGEST-MD5\nsasl.username=me", "sasl.password"),
        ("zookeeper.client.secure=yes", "true or false"),
        ("zookeeper.client.secure=true\nzookeeper.ssl.trustStore.location=/none.pem", "cannot be read"),
        ("zookeeper.client.secure=true\nzookeeper.ssl.trustStore.location=/proc/version", "not PEM"),
    ],
)
def test_invalid_settings_are_refused_with_their_place_and_without_secrets(text, said):
    with pytest.raises(InvalidMetadataUrl, match=said) as caught:
        parse_security(text, "/etc/zk.conf")
    assert "/etc/zk.conf" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidMetadataUrl, match=f"{tmp_path}/none"):
        read_security(f"{tmp_path}/none")


def test_a_url_names_the_file():
    url = parse_url("zk://a:1,b:2/chroot?config=/etc/zk.conf")
    assert url == ZooKeeperUrl((("a", 1), ("b", 2)), "/chroot", "/etc/zk.conf")
    assert str(url) == "zk://a:1,b:2/chroot?config=/etc/zk.conf"
    assert parse_url("zk:a?config=/etc/zk.conf") == ZooKeeperUrl((("a", 2181),), "", "/etc/zk.conf")
    with pytest.raises(InvalidMetadataUrl, match=r"\?config=FILE"):
        parse_url("zk://me:secret@a:1")
