"""The system's `crypt`, which hashes without Python's lock: hundreds of thousands of rounds hold no message up."""

import ctypes
from collections.abc import Callable
from functools import cache

_LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2", None)
"""Of Debian and Red Hat, of newer distributions, and of systems whose C library has it (musl)."""
_WORKSPACE = 256 << 10
"""Bytes; glibc's `struct crypt_data` has 131,232."""


def system_hash(password: bytes, setting: str) -> str | None:
    """The hash of a password by the method, rounds and salt that `setting` begins with, itself a hash; on any thread.

    None if this system does not know the method, or has no `crypt`. ValueError for a password with a NUL.
    """
    if b"\0" in password:
        raise ValueError("a password has no NUL")
    function = _crypt()
    if function is None:
        return None
    found = function(password, setting.encode(), ctypes.create_string_buffer(_WORKSPACE))
    return None if found is None else found.decode(errors="replace")


@cache
def _crypt() -> "Callable[..., bytes | None] | None":
    for name in _LIBRARIES:
        try:
            function = ctypes.CDLL(name).crypt_r
        except (OSError, AttributeError):
            continue
        function.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
        function.restype = ctypes.c_char_p
        return function
    return None
