"""Logging in to a real ZooKeeper by digest, by SASL and over TLS; access control lists of new and rewritten nodes."""

import asyncio
import subprocess
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from msgspec import structs

from mledger.metastore.cluster.bookies import list_bookies, register
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.errors import MetadataAccessDenied, StoreUnavailable
from mledger.metastore.store import Create, Delete, Put
from mledger.metastore.url import open_reader, open_store
from mledger.metastore.zookeeper.launcher import ZooKeeperServer, find_zookeeper, free_port
from tests.support.aio import HANG_S, run

JAAS = """
Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_me="secret";
};
"""


def with_config(url, tmp_path, *lines):
    """`url` with a configuration of `lines`."""
    path = tmp_path / f"zk-{len(list(tmp_path.iterdir()))}.conf"
    path.write_text("\n".join(lines))
    return f"{url}?config={path}"


def acl_of(url, path, *digests):
    """Who may do what at `path`, as another client sees it."""
    hosts, slash, chroot = url.removeprefix("zk://").partition("?")[0].partition("/")
    client = KazooClient(hosts, auth_data=[("digest", digest) for digest in digests])
    client.start(timeout=HANG_S)
    try:
        acls, _ = client.get_acls(slash + chroot + path)
        return [(acl.id.scheme, acl.id.id.partition(":")[0], sorted(acl.acl_list)) for acl in acls]
    finally:
        client.stop()
        client.close()


OWN = [("digest", "me", ["ALL"])]


def test_nodes_of_a_digest_user_are_private_and_stay_so_when_rewritten(metadata_url, tmp_path):
    mine = with_config(metadata_url, tmp_path, "digest=me:secret", "acl=creator")
    theirs = with_config(metadata_url, tmp_path, "digest=other:secret", "acl=creator")

    async def main():
        async with await open_store(mine) as store, await open_store(theirs) as other:
            assert store.url == mine
            await store.create("/a/b/c", b"0", parents=True)
            await store.multi([Put("/a", b"1", 0), Create("/a/d"), Create("/a/e", ephemeral=True)])
            await store.put("/a", b"2", 1)
            await store.multi([Delete("/a/d"), Create("/a/d", b"again")])
            for attempt in (other.get("/a"), other.put("/a", b"", 2), other.create("/a/x"), other.delete("/a/d")):
                with pytest.raises(MetadataAccessDenied, match="access control list"):
                    await attempt
            with pytest.raises(MetadataAccessDenied):
                await other.get_many(["/a"])
            async with await open_reader(mine) as reader:
                assert (await reader.get("/a")).data == b"2"

    run(main())
    for path in ("/a", "/a/b", "/a/b/c", "/a/d"):
        assert acl_of(metadata_url, path, "me:secret") == OWN


def test_a_store_that_rewrites_another_s_node_keeps_its_list(metadata_url, tmp_path):
    shared = "acl=world:anyone:rw,digest:me:4JFGo+VjyFGBdJ8lhGyF3bJeVcM=:cdrwa"
    first = with_config(metadata_url, tmp_path, shared)

    async def main():
        async with await open_store(first) as store, await open_store(metadata_url) as other:
            await store.create("/node", b"0")
            before = acl_of(metadata_url, "/node")
            await other.put("/node", b"1", 0)
            await other.multi([Put("/node", b"2", 1)])
            assert acl_of(metadata_url, "/node") == before
            assert [entry[0] for entry in before] == ["world", "digest"]

    run(main())


def test_a_cluster_of_one_user_can_be_read_by_all(metadata_url, tmp_path):
    """The list lets everybody read: inspection works without a login, and nothing else does."""
    auth = with_config(metadata_url, tmp_path, "digest=me:secret", "acl=auth::cdrwa,world:anyone:r")

    async def main():
        async with await open_store(auth) as store, await open_reader(metadata_url) as reader:
            await initialize(store)
            await register(store, "127.0.0.1:3181", "127.0.0.1", 3181)
            assert [bookie.bookie_id for bookie in await list_bookies(reader)] == ["127.0.0.1:3181"]
        async with await open_store(metadata_url) as other:
            with pytest.raises(MetadataAccessDenied):
                await register(other, "127.0.0.1:3182", "127.0.0.1", 3182)

    run(main())


def test_a_missing_chroot_is_created_with_the_list(metadata_url, tmp_path):
    url = with_config(f"{metadata_url}/deep/cluster", tmp_path, "digest=me:secret", "acl=creator")

    async def main():
        async with await open_store(url, create_chroot=True) as store:
            await store.create("/node")

    run(main())
    assert acl_of(metadata_url, "/deep/cluster", "me:secret") == OWN
    assert acl_of(metadata_url, "/deep/cluster/node", "me:secret") == OWN


@pytest.fixture(scope="module")
def sasl_server(tmp_path_factory):
    """A server that knows the SASL user `me` and admits nobody else."""
    directory = tmp_path_factory.mktemp("sasl")
    (directory / "jaas.conf").write_text(JAAS)
    settings = {
        "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "sessionRequireClientSASLAuth": "true",
    }
    options = [f"-Djava.security.auth.login.config={directory / 'jaas.conf'}"]
    with ZooKeeperServer.start(directory / "zookeeper", sync=False, settings=settings, java_options=options) as server:
        yield server


SASL = ("sasl.mechanism=DIGEST-MD5", "sasl.username=me")


def test_a_sasl_user_works_and_owns_what_it_creates(sasl_server, tmp_path):
    url = with_config(sasl_server.url, tmp_path, *SASL, "sasl.password=secret", "acl=creator")

    async def main():
        async with await open_store(url) as store:
            await store.create("/mine/node", b"data", parents=True)
            await store.put("/mine", b"1", 0)
            assert await store.children("/mine") == ["node"]
            async with await open_reader(url) as reader:
                assert (await reader.get("/mine/node")).data == b"data"

    run(main())


def test_a_wrong_sasl_password_is_refused_by_name(sasl_server, tmp_path):
    url = with_config(sasl_server.url, tmp_path, *SASL, "sasl.password=wrong")

    async def main():
        with pytest.raises(MetadataAccessDenied, match=f"{sasl_server.connect_string} refused the login") as caught:
            await open_store(url)
        assert "wrong" not in str(caught.value)

    run(main())


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority (ca.pem), certificates with keys for a server and a client, and one that nobody trusts."""
    directory = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    for authority in ("ca", "strange"):
        openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={authority}"),
            *("-keyout", f"{authority}.key", "-out", f"{authority}.pem"),
        )
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
    for name in ("server", "client"):
        openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", f"{name}.key", "-out", f"{name}.csr"),
        )
        openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
            *("-days", "2", "-extfile", "names", "-out", f"{name}.crt"),
        )
        both = (directory / f"{name}.key").read_bytes() + (directory / f"{name}.crt").read_bytes()
        (directory / f"{name}.pem").write_bytes(both)
    return directory


@pytest.fixture(scope="module")
def tls_url(tmp_path_factory, certificates):
    """The URL of a server that accepts only clients of the authority, over TLS."""
    found = find_zookeeper()
    jars = Path(found.classpath[0]).parent
    netty = [*jars.glob("netty-*.jar")]
    runtime = structs.replace(found, classpath=(*found.classpath, *netty))
    port = free_port()
    settings = {
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(certificates / "server.pem"),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(certificates / "ca.pem"),
        "ssl.trustStore.type": "PEM",
    }
    directory = tmp_path_factory.mktemp("tls") / "zookeeper"
    with ZooKeeperServer.start(directory, sync=False, runtime=runtime, settings=settings):
        yield f"zk://127.0.0.1:{port}"


SECURE = "zookeeper.client.secure=true"


def client_of(certificates):
    """Settings of a client that trusts the server and is trusted by it."""
    return f"trustStore.location={certificates / 'ca.pem'}", f"keyStore.location={certificates / 'client.pem'}"


def test_everything_works_over_tls_even_with_many_answers_at_once(tls_url, certificates, tmp_path):
    url = with_config(
        tls_url,
        tmp_path,
        SECURE,
        *(f"zookeeper.ssl.{line}" for line in client_of(certificates)),
    )

    async def main():
        async with await open_store(url) as store:
            await store.create("/n")
            await asyncio.gather(*(store.create(f"/n/{number}", b"%d" % number) for number in range(500)))
            nodes = await asyncio.gather(*(store.get(f"/n/{number}") for number in range(500)))
            assert [int(node.data) for node in nodes] == list(range(500))
            await store.put("/n", bytes(900_000), 0)
            assert len((await store.get("/n")).data) == 900_000
            found = await store.get_many([f"/n/{number}" for number in range(500)])
            assert len(found) == 500
            async with store.watch("/n") as changes:
                await store.put("/n", b"", 1)
                await anext(changes)

    run(main())


def test_a_server_of_another_authority_is_refused(tls_url, certificates, tmp_path):
    trusted = with_config(tls_url, tmp_path, SECURE, *(f"zookeeper.ssl.{line}" for line in client_of(certificates)))
    url = with_config(tls_url, tmp_path, SECURE, f"zookeeper.ssl.trustStore.location={certificates / 'strange.pem'}")

    async def main():
        async with await open_store(trusted, timeout=HANG_S):  # from now on it answers at once
            with pytest.raises(StoreUnavailable, match=r"TLS: .*certificate verify failed"):
                await open_store(url, timeout=5)

    run(main())
