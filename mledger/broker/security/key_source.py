"""The bytes of a key or password file, from where Pulsar's settings say: a URL, a path or base64."""

import base64
import binascii
import os
import re
from urllib.parse import unquote_to_bytes, urlsplit
from urllib.request import url2pathname

from mledger.metastore.errors import InvalidSetting

_DATA_URL = re.compile(r"data:(?P<kind>[^,]*),(?P<data>.*)", re.DOTALL)


def read_source(setting: str, source: str) -> bytes:
    """The bytes that `source` means: `file:` and `data:` URLs, a path of a file that exists, else base64.

    Raises:
        InvalidSetting: the file cannot be read, or the text is none of these. It names the setting, never its data.
    """
    found = _DATA_URL.fullmatch(source)
    if found is not None:
        encoded = "base64" in found["kind"].split(";")
        return _base64(setting, found["data"]) if encoded else unquote_to_bytes(found["data"])
    if source.startswith("file:"):
        return _file(setting, url2pathname(urlsplit(source).path))
    if os.path.exists(source):
        return _file(setting, source)
    return _base64(setting, source)


def _file(setting: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidSetting(f"{setting}: {path} cannot be read: {error.strerror}; name the file") from None


def _base64(setting: str, text: str) -> bytes:
    try:
        return base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidSetting(
            f"{setting} is neither a file that exists nor base64: write file:///PATH or data:;base64,TEXT"
        ) from None
