"""Paths and names: the laws they obey, and names that no node can have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.metastore.errors import InvalidName
from mledger.metastore.records.paths import (
    MAX_LEDGER_ID,
    TopicName,
    bookie_path,
    check_bookie_id,
    cookie_path,
    cursor_name_from_path,
    cursor_names,
    cursor_path,
    decode_name,
    deletion_path,
    encode_name,
    ledger_id_from_path,
    ledger_path,
    managed_ledger_depth,
    managed_ledger_path,
    owner_path,
    pending_path,
    topic_above,
    topic_of_element,
    underreplicated_path,
)

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda name: name not in {".", ".."})
entities = st.text("abcXYZ019-=:_", min_size=1, max_size=8)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_name_is_decoded_from_its_encoding(name):
    encoded = encode_name(name)
    assert decode_name(encoded) == name
    assert encoded.isascii()
    assert not set(encoded) & set("/ ~&=?")


def local_name(of, element):
    """What a function says of a topic's node: the topic's local name, or that it is none."""
    try:
        return of(element)
    except InvalidName:
        return None


@given(
    st.lists(st.sampled_from(["a", "é", ".", "+", "%2E", "%2f", "%C3%A9", "%ff", "%", "%00", "\x7f", "\ud800"])).map(
        "".join
    )
)
def test_a_topics_node_names_the_topic_that_its_managed_ledger_names(element):
    named = local_name(lambda each: TopicName.of_managed_ledger(f"t/n/persistent/{each}").local_name, element)
    assert local_name(topic_of_element, element) == named


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("a b", "a+b"),
        ("a+b", "a%2Bb"),
        ("~", "%7E"),
        ("*.-_", "*.-_"),
        ("100%", "100%25"),
        ("子", "%E5%AD%90"),
        ("a/b", "a%2Fb"),
        ("\x00", "%00"),
    ],
)
def test_names_are_encoded_as_by_java_s_url_encoder(name, encoded):
    assert encode_name(name) == encoded


@pytest.mark.parametrize("text", ["%", "%4", "a%zz", "%FF", "%E5%AD"])
def test_a_broken_escape_is_no_name(text):
    with pytest.raises(InvalidName, match="not an encoded name"):
        decode_name(text)


def test_half_a_surrogate_pair_is_no_name():
    with pytest.raises(InvalidName, match="surrogate"):
        encode_name("\ud83d")


@given(entities, entities, names)
def test_a_topic_is_read_from_its_text_and_from_its_managed_ledger(tenant, namespace, local):
    if "/" not in local:
        topic = TopicName(tenant, namespace, local)
        assert TopicName.parse(str(topic)) == topic
        assert TopicName.of_managed_ledger(topic.managed_ledger_name) == topic
        assert topic.managed_ledger_path == managed_ledger_path(topic.managed_ledger_name)


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("persistent://t/ns/topic", "persistent://t/ns/topic"),
        ("t/ns/topic", "persistent://t/ns/topic"),
        ("topic", "persistent://public/default/topic"),
        ("topic:with://marks", None),
        ("persistent://t/use/ns/old topic", "persistent://t/use/ns/old topic"),
        ("persistent://t/use/ns/a/b", "persistent://t/use/ns/a/b"),
    ],
)
def test_the_forms_of_a_topics_name(text, full):
    if full is None:
        with pytest.raises(InvalidName):
            TopicName.parse(text)
    else:
        assert str(TopicName.parse(text)) == full


def test_the_old_form_has_five_levels():
    topic = TopicName.parse("persistent://t/use/ns/old topic")
    assert topic.cluster == "use"
    assert topic.managed_ledger_path == "/managed-ledgers/t/use/ns/persistent/old+topic"


@pytest.mark.parametrize(
    "text",
    ["", "t/topic", "persistent://t/ns", "persistent://t/ns/", "persistent:///ns/x", "t/use/ns/x", "x://t/ns/a",
     "persistent://t/n s/x", "persistent://t/ns/..", "persistent://../ns/x"],
)  # fmt: skip
def test_invalid_topic_names_are_refused(text):
    with pytest.raises(InvalidName):
        TopicName.parse(text)


def test_a_name_of_two_parts_is_refused_with_the_short_forms_that_there_are():
    with pytest.raises(InvalidName, match="write it as tenant/namespace/topic, or as topic alone"):
        TopicName.parse("orders/x")


def test_a_non_persistent_topic_is_refused_as_such():
    with pytest.raises(InvalidName, match="non-persistent"):
        TopicName.parse("non-persistent://t/ns/x")


@pytest.mark.parametrize(
    ("text", "partitioned_path"),
    [
        ("non-persistent://t/ns/a b", "/admin/partitioned-topics/t/ns/non-persistent/a+b"),
        ("non-persistent://t/use/ns/x", "/admin/partitioned-topics/t/use/ns/non-persistent/x"),
    ],
)
def test_a_broker_serves_non_persistent_topics_too(text, partitioned_path):
    topic = TopicName.parse_served(text)
    assert str(topic) == text
    assert not topic.is_persistent
    assert topic.partitioned_topic_path == partitioned_path
    assert str(topic.partition(2).partitioned) == text
    assert TopicName.of_managed_ledger(topic.managed_ledger_name) == topic


@pytest.mark.parametrize("text", ["orders", "t/ns/x", "persistent://t/ns/x", "segment://t/ns/x/0000-ffff-0"])
def test_a_broker_is_told_stored_topics_by_the_same_names(text):
    topic = TopicName.parse_served(text)
    assert topic == TopicName.parse(text)
    assert topic.is_persistent


@pytest.mark.parametrize("text", ["non-persistent://t/ns/", "non-persistent://t/../x", "topic://t/n/x", "x://t/ns/a"])
def test_a_broker_refuses_what_names_no_topic(text):
    with pytest.raises(InvalidName):
        TopicName.parse_served(text)


@pytest.mark.parametrize("name", ["", "a//b", "/a", "a/", "a/./b", "a/../b", "a\x00b", "a\ue000"])
def test_invalid_managed_ledger_names_are_refused(name):
    with pytest.raises(InvalidName):
        managed_ledger_path(name)


@given(names)
def test_a_cursor_s_name_is_read_from_its_path(cursor):
    path = cursor_path("t/ns/persistent/x", cursor)
    assert path.count("/") == 6
    assert cursor_name_from_path(path) == cursor


@pytest.mark.parametrize("cursor", ["", ".", ".."])
def test_invalid_cursor_names_are_refused(cursor):
    with pytest.raises(InvalidName):
        cursor_path("t/ns/persistent/x", cursor)


@given(st.integers(0, MAX_LEDGER_ID) | st.integers(0, 1 << 33))
def test_a_ledger_id_is_read_from_its_path(ledger_id):
    assert ledger_id_from_path(ledger_path(ledger_id)) == ledger_id
    assert ledger_id_from_path(ledger_path(ledger_id, "/chroot/x"), "/chroot/x") == ledger_id


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (0, "/ledgers/00/0000/L0000"),
        ((1 << 31) - 2, "/ledgers/21/4748/L3646"),
        ((1 << 31) - 1, "/ledgers/000/0000/0021/4748/L3647"),
        (MAX_LEDGER_ID, "/ledgers/922/3372/0368/5477/L5807"),
    ],
)
def test_ledger_paths_on_both_sides_of_the_long_form(ledger_id, path):
    assert ledger_path(ledger_id) == path


@pytest.mark.parametrize("ledger_id", [-1, MAX_LEDGER_ID + 1])
def test_invalid_ledger_ids_are_refused(ledger_id):
    with pytest.raises(InvalidName, match="not a ledger id"):
        ledger_path(ledger_id)


@pytest.mark.parametrize(
    "path",
    ["/ledgers", "/ledgers/00/0000", "/ledgers/00/0000/L000", "/ledgers/00/0000/L00000", "/ledgers/00/0000/0000",
     "/ledgers/99/9999/L9999", "/ledgers/000/0000/0000/0000/L0001", "/ledgers/999/9999/9999/9999/L9999",
     "/other/00/0000/L0000", "/ledgers/0\u0660/0000/L0000"],
)  # fmt: skip
def test_invalid_ledger_paths_are_refused(path):
    with pytest.raises(InvalidName):
        ledger_id_from_path(path)


@pytest.mark.parametrize("bookie_id", ["127.0.0.1:3181", "bookie-1.example_x", "a", "[::1]:3181", "b@rack;1"])
def test_a_bookies_paths(bookie_id):
    assert bookie_path(bookie_id) == f"/ledgers/available/{bookie_id}"
    assert bookie_path(bookie_id, read_only=True, root="/r") == f"/r/available/readonly/{bookie_id}"
    assert cookie_path(bookie_id) == f"/ledgers/cookies/{bookie_id}"


@pytest.mark.parametrize("bookie_id", ["", "readonly", "ReadOnly", "a/b", "a b", "ü", "..", "a\n"])
def test_invalid_bookie_ids_are_refused(bookie_id):
    with pytest.raises(InvalidName, match="not a bookie id"):
        check_bookie_id(bookie_id)


def test_a_mark_of_under_replication_is_below_its_hexadecimal_id():
    assert underreplicated_path(4294967298) == "/ledgers/underreplication/ledgers/0000/0001/0000/0002/urL4294967298"


def test_our_own_records():
    assert pending_path(7) == "/mledger/pending/7"
    assert deletion_path(7) == "/mledger/deletions/7"
    assert owner_path("t/ns/persistent/x") == "/mledger/owners/t%2Fns%2Fpersistent%2Fx"


@pytest.mark.parametrize(("name", "number"), [("t-partition-7", 7), ("t-partition-0", 0), ("t", -1)])
def test_a_partition_has_its_number_and_any_other_topic_has_minus_one(name, number):
    assert TopicName.parse(f"persistent://tenant/ns/{name}").partition_number == number


SEGMENT_NAMES = [
    ("segment://t/n/orders/0000-ffff-0", "t/n/segment/orders/0000-ffff-0"),
    ("segment://t/n/a:b/8000-ffff-12", "t/n/segment/a%3Ab/8000-ffff-12"),
    ("segment://t/n/x-partition-3/0000-7fff-1", "t/n/segment/x-partition-3/0000-7fff-1"),
]


@pytest.mark.parametrize(("name", "managed_ledger"), SEGMENT_NAMES)
def test_a_segment_of_a_scalable_topic_is_a_topic_with_a_managed_ledger(name, managed_ledger):
    topic = TopicName.parse(name)
    assert (str(topic), topic.managed_ledger_name) == (name, managed_ledger)
    assert TopicName.of_managed_ledger(managed_ledger) == topic
    assert (topic.partition_index, topic.partitioned) == (None, topic)


@pytest.mark.parametrize(
    "text",
    [
        "segment://t/n/orders",
        "segment://t/n/orders/bad-descriptor",
        "segment://t/n/orders/0000-FFFF-0",
        "segment://t/n",
        "topic://t/n/orders",
    ],
)
def test_an_invalid_segment_is_refused_with_how_to_write_one(text):
    with pytest.raises(InvalidName, match="segment://t"):
        TopicName.parse(text)


def test_an_old_namespace_named_segment_is_no_segment():
    topic = TopicName.of_managed_ledger("t/cluster/segment/persistent/x")
    assert (topic.cluster, topic.namespace, topic.domain) == ("cluster", "segment", "persistent")


@pytest.mark.parametrize(
    ("path", "depth"),
    [
        ("t/n/persistent/x", 4),
        ("t/n/persistent/x/cursor", 4),
        ("t/c/n/persistent/x", 5),
        ("t/c/segment/persistent/x", 5),
        ("t/n/segment/x/0000-ffff-0", 5),
        ("t/n/segment/x/0000-ffff-0/cursor", 5),
        ("t/n/segment/x/other", None),
        ("t/n/segment/x", None),
        ("t/n/persistent", None),
        ("t", None),
    ],
)
def test_a_managed_ledger_is_recognised_by_the_elements_of_its_path(path, depth):
    assert managed_ledger_depth(path.split("/")) == depth


def test_two_spellings_of_a_cursor_are_two_cursors():
    assert cursor_names(["a%20b", "a+b", "a%2520b", "x"]) == {
        "a+b": "a b",
        "a%2520b": "a%20b",
        "x": "x",
        "a%20b": "a%2520b",
    }


@pytest.mark.parametrize(
    ("path", "topic"),
    [
        ("/managed-ledgers/t/n/persistent/x/one", "/managed-ledgers/t/n/persistent/x"),
        ("/managed-ledgers/t/c/n/persistent/x/one", "/managed-ledgers/t/c/n/persistent/x"),
        ("/managed-ledgers/t/n/persistent/x", ""),
        ("/managed-ledgers/t/n/persistent/x/one/more", ""),
        ("/managed-ledgers/t/n", ""),
        ("/ledgers/00/0000/L0001", ""),
        ("/admin", ""),
    ],
)
def test_the_topic_above_a_cursor(path, topic) -> None:
    assert topic_above(path) == topic
