"""Secrets outside a configuration: it names the file or variable that holds them, or says to ask the user."""

import os
from collections.abc import Callable

KINDS = ("file", "env", "prompt")

Prompt = Callable[[str], str]

_prompt: Prompt | None = None
_answers: dict[tuple[str, str], str] = {}


class SecretNotFound(Exception):
    """A secret is not where the configuration says; the message says where that is."""


def set_prompt(prompt: Prompt | None) -> None:
    """Have `prompt` ask the user for a secret that is described to it; None: there is nobody to ask."""
    global _prompt
    _prompt = prompt
    _answers.clear()


def find_secret(key: str, kind: str, value: str, path: str) -> str:
    """The secret `key`: the first line of the file `value` beside `path`, the variable `value`, or what the user types.

    The user is asked once for each key of a configuration, and only where a program has said how (`set_prompt`).

    Raises:
        SecretNotFound: it is not there, it is empty, or nobody can be asked.
    """
    if kind == "file":
        found = _from_file(os.path.join(os.path.dirname(path), value), key)
    elif kind == "env":
        found = os.environ.get(value, "")
        if not found:
            raise SecretNotFound(f"{key} is to be in the environment as {value}, which is not set")
    else:
        found = _asked_for(key, path)
    if not found:
        raise SecretNotFound(f"{key} is empty")
    return found


def _from_file(path: str, key: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SecretNotFound(f"{key} is to be in a file that cannot be read: {error}") from None


def _asked_for(key: str, path: str) -> str:
    if (path, key) not in _answers:
        if _prompt is None:
            raise SecretNotFound(f"{key} is to be asked for, and nobody is there to ask: use {key}.file or {key}.env")
        _answers[path, key] = _prompt(f"{key} of {path}")
    return _answers[path, key]
