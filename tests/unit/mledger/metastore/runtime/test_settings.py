import logging

import pytest

from mledger.metastore.errors import InvalidSetting
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.settings import boolean, integer, number, read_settings


def written(tmp_path, text):
    path = tmp_path / "x.conf"
    path.write_text(text)
    return str(path)


def test_an_assignment_wins_over_the_file_and_a_later_line_over_an_earlier(tmp_path):
    settings = read_settings(written(tmp_path, "a=1\nb=2\nb=3\n"), ["a=4"])
    assert settings.texts(["a", "b", "c"]) == {"a": "4", "b": "3"}
    assert settings.where("a") == "--set"
    assert settings.where("b").endswith("x.conf:3")


def test_a_bad_value_is_named_with_key_file_line_and_need(tmp_path):
    settings = read_settings(written(tmp_path, "\nbookiePort=many\n"))
    with pytest.raises(InvalidSetting, match=r"x\.conf:2: bookiePort is 'many': a whole number from 0 to 65,535"):
        settings.take("bookiePort", integer(0, 65535), 3181)


def test_an_empty_value_is_the_default(tmp_path):
    assert read_settings(written(tmp_path, "a=  \n")).take("a", integer(0, 9), 7) == 7


@pytest.mark.parametrize("text", ["", "1.5", "1e3", "٣", "0x1", "11"])
def test_only_whole_numbers_in_range_are_integers(text):
    with pytest.raises(ValueError, match="whole number"):
        integer(0, 10)(text)


def test_numbers_and_booleans_are_parsed():
    assert (number(0, 1)("0.95"), integer(-5, 5)("-3"), boolean("TRUE"), boolean("off")) == (0.95, -3, True, False)
    for parse, text in ((number(0, 1), "nan"), (number(0, 1), "1.1"), (boolean, "1")):
        with pytest.raises(ValueError, match="needed"):
            parse(text)


def test_unknown_keys_give_one_warning_and_known_keys_without_effect_a_debug_line(tmp_path, caplog):
    settings = read_settings(written(tmp_path, "used=1\nzebra=1\nknown=2\napple=3\n"))
    settings.take("used", integer(0, 9), 0)
    with caplog.at_level(logging.DEBUG):
        settings.report(get_logger("test"), {"used", "known"}.__contains__)
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", "event=unknown_settings keys=apple,zebra"),
        ("DEBUG", "event=settings_without_effect keys=known"),
    ]


def test_an_invalid_assignment_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(InvalidSetting, match="KEY=VALUE"):
        read_settings(None, ["journalMaxSizeMB"])
    with pytest.raises(InvalidSetting, match="cannot be read"):
        read_settings(str(tmp_path / "none.conf"))
