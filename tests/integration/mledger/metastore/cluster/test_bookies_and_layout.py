"""Registrations, cookies and a cluster's own nodes over every store."""

import logging

import pytest

from mledger.metastore.cluster.bookies import (
    BookieRegistration,
    Cookie,
    delete_cookie,
    list_bookies,
    read_cookie,
    register,
    registered_at,
    resolve,
    unregister,
    write_cookie,
)
from mledger.metastore.cluster.layout import LAYOUT, initialize, instance_id
from mledger.metastore.errors import BadVersion, InvalidName, NodeExists, NodeNotFound, RecordError
from tests.support.metadata.stores import with_store, with_two_stores

COOKIE = Cookie("127.0.0.1:3181", "data/journal", ("data/store",), "3f6a")


@with_store
async def test_initialising_twice_changes_nothing(store):
    made = await initialize(store)
    assert await initialize(store) == made
    assert await instance_id(store) == made
    assert (await store.get("/ledgers/LAYOUT")).data == LAYOUT


@with_store
async def test_a_cluster_is_initialised_below_any_root(store):
    await initialize(store, "/a/b/ledgers")
    assert await store.children("/a/b/ledgers") == ["INSTANCEID", "LAYOUT", "available"]


@with_store
async def test_missing_nodes_are_created_and_existing_ones_kept(store):
    await store.create("/ledgers/available/readonly", parents=True)
    await initialize(store)
    assert await store.children("/ledgers") == ["INSTANCEID", "LAYOUT", "available"]


@with_store
async def test_a_cluster_with_another_layout_is_refused_and_not_changed(store):
    await store.create("/ledgers/LAYOUT", b"1\nflat:1", parents=True)
    with pytest.raises(RecordError, match="flat:1"):
        await initialize(store)
    assert await store.children("/ledgers") == ["LAYOUT"]


@with_store
async def test_a_place_without_a_cluster_is_an_error_that_says_so(store):
    with pytest.raises(NodeNotFound, match="initialise the cluster"):
        await instance_id(store)
    with pytest.raises(NodeNotFound, match="initialise the cluster, or correct its root"):
        await list_bookies(store)


@with_two_stores
async def test_a_bookie_is_listed_while_its_session_lives(bookie, client):
    await initialize(client)
    await register(bookie, "127.0.0.1:3181", "127.0.0.1", 3181)
    await register(bookie, "127.0.0.1:3181", "127.0.0.1", 3181)
    await register(bookie, "named", "localhost", 3182, read_only=True)
    assert await list_bookies(client) == [
        BookieRegistration("127.0.0.1:3181", "127.0.0.1", 3181),
        BookieRegistration("named", "localhost", 3182, read_only=True),
    ]
    await bookie.close()
    assert await list_bookies(client) == []


@with_store
async def test_an_empty_registration_means_that_the_id_is_the_address(store):
    await store.create("/ledgers/available/10.0.0.3:3181", parents=True)
    assert await list_bookies(store) == [BookieRegistration("10.0.0.3:3181", "10.0.0.3", 3181)]


@pytest.mark.parametrize(
    ("bookie_id", "data"),
    [
        ("named", b""),
        ("named", bytes.fromhex("32150a026869100a1a046c6f63612204 68747470")),
        ("named", b"\xff"),
        ("10.0.0.3:99999", b""),
        ("no id", b""),
        ("readonly/what?", b""),
    ],
)
def test_an_unreachable_bookie_is_left_out_with_a_warning(any_metadata_url, caplog, bookie_id, data):
    @with_store
    async def check(store):
        await register(store, "127.0.0.1:3181", "127.0.0.1", 3181)
        await store.create(f"/ledgers/available/{bookie_id}", data, parents=True)
        assert [each.bookie_id for each in await list_bookies(store)] == ["127.0.0.1:3181"]

    with caplog.at_level(logging.WARNING, "mledger.metastore.cluster.bookies"):
        check(any_metadata_url)
    assert bookie_id.removeprefix("readonly/") in caplog.text


@with_two_stores
async def test_an_id_registered_by_another_session_is_refused(one, other):
    await register(one, "named", "127.0.0.1", 3181, directory="one")
    with pytest.raises(NodeExists, match="registered by another session"):
        await register(other, "named", "127.0.0.1", 3181)
    with pytest.raises(NodeExists, match="registered by another session"):
        await register(other, "named", "127.0.0.1", 3182, directory="one")
    with pytest.raises(NodeExists, match="registered by another session"):
        await register(other, "named", "127.0.0.1", 3182, read_only=True, directory="one")
    assert [each.port for each in await list_bookies(other)] == [3181]


@pytest.mark.parametrize("former", ["", "another"])
def test_a_registration_with_another_directory_is_refused_though_its_address_is_the_same(any_metadata_url, former):
    @with_two_stores
    async def check(one, other):
        await register(one, "named", "127.0.0.1", 3181, directory=former)
        for read_only in (False, True):
            with pytest.raises(NodeExists, match="the bookie named is registered by another session"):
                await register(other, "named", "127.0.0.1", 3181, read_only=read_only, directory="copy")
        await one.close()
        await register(other, "named", "127.0.0.1", 3181, directory="copy")

    check(any_metadata_url)


@with_two_stores
async def test_a_process_that_holds_the_directory_replaces_its_predecessor(former, present):
    await register(former, "named", "127.0.0.1", 3181, directory="one")
    await register(present, "named", "127.0.0.1", 3181, directory="one")
    await former.close()
    assert [each.bookie_id for each in await list_bookies(present)] == ["named"]


@with_two_stores
async def test_a_predecessor_whose_session_ends_just_then_is_replaced_too(former, present):
    await register(former, "named", "127.0.0.1", 3181, directory="one")
    multi = present.multi

    async def too_late(operations):
        await unregister(former, "named")
        return await multi(operations)

    present.multi = too_late
    await register(present, "named", "127.0.0.1", 3181, directory="one")
    await former.close()
    assert [each.bookie_id for each in await list_bookies(present)] == ["named"]


@with_store
async def test_a_registration_can_be_withdrawn_once_or_twice(store):
    await register(store, "named", "127.0.0.1", 3181)
    await unregister(store, "named")
    await unregister(store, "named")
    assert await list_bookies(store) == []


@with_store
async def test_other_bookies_at_an_address_are_found_before_and_after_a_cluster_has_any(store):
    assert await registered_at(store, "127.0.0.1", 1, without="own") == []
    await initialize(store)
    for name, port in (("own", 1), ("other", 1), ("elsewhere", 2)):
        await register(store, name, "127.0.0.1", port)
    assert await registered_at(store, "127.0.0.1", 1, without="own") == ["other"]
    assert await registered_at(store, "127.0.0.1", 2, without="elsewhere") == []


def test_an_id_resolves_by_its_registration_or_by_itself():
    found = [BookieRegistration("named", "10.0.0.3", 3181)]
    assert resolve(found, "named") == ("10.0.0.3", 3181)
    assert resolve(found, "10.0.0.4:3182") == ("10.0.0.4", 3182)
    with pytest.raises(InvalidName, match="its address is not known"):
        resolve(found, "other")


@pytest.mark.parametrize("bookie_id", ["former", "present", "10.0.0.3:3181"])
def test_an_address_at_which_another_bookie_is_registered_resolves_to_none(bookie_id):
    found = [BookieRegistration(name, "10.0.0.3", 3181) for name in ("former", "present")]
    with pytest.raises(InvalidName, match=r"registered at 10\.0\.0\.3:3181 too"):
        resolve(found, bookie_id)


def test_a_bookie_in_both_lists_resolves_to_where_it_is_writable():
    found = [BookieRegistration("named", "10.0.0.3", 3181), BookieRegistration("named", "10.0.0.3", 3182, True)]
    assert resolve(found, "named") == ("10.0.0.3", 3181)


@with_store
async def test_a_cookie_is_written_read_replaced_and_deleted(store):
    assert await write_cookie(store, COOKIE) == 0
    assert await read_cookie(store, COOKIE.bookie_id) == (COOKIE, 0)
    assert await write_cookie(store, COOKIE, version=0) == 1
    with pytest.raises(BadVersion):
        await write_cookie(store, COOKIE, version=0)
    with pytest.raises(NodeExists):
        await write_cookie(store, COOKIE)
    await delete_cookie(store, COOKIE.bookie_id, 1)
    with pytest.raises(NodeNotFound):
        await read_cookie(store, COOKIE.bookie_id)
