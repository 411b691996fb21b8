"""`bin/pulsar tokens` of Pulsar's image: keys and tokens for brokers that authenticate, with the original's options."""

import argparse
import base64
import binascii
import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mledger.broker.security.key_source import read_source
from mledger.broker.security.security_settings import SecuritySettings
from mledger.broker.security.token_keys import public_keys, secret_key
from mledger.broker.security.token_signer import (
    PAIR_ALGORITHMS,
    SECRET_BYTES,
    create_key_pair,
    create_secret,
    sign_with_private_key,
    sign_with_secret,
)
from mledger.broker.security.tokens import TokenVerifier
from mledger.metastore.errors import InvalidSetting, MledgerError

PROGRAM = "bin/pulsar tokens"
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}
_PERIOD = re.compile(rf"(\d+)([{''.join(_UNITS_S)}]?)", re.ASCII)


def plan_expiry(period: str | None, now_s: int) -> dict[str, int]:
    """The claim that a token expires so long after now: `90s`, `15m`, `1h`, `3d`, `2w`, `10y`. InvalidSetting."""
    if period is None:
        return {}
    found = _PERIOD.fullmatch(period.strip())
    if found is None:
        raise InvalidSetting(f"--expiry-time {period}: write a number and a unit of s, m, h, d, w and y, such as 3d")
    return {"exp": now_s + int(found[1]) * _UNITS_S[found[2]]}


def decode_parts(token: str) -> tuple[str, str]:
    """A token's header and claims, as they are in it. InvalidSetting if it is none."""
    parts = token.split(".")
    try:
        header, claims = (base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode() for part in parts[:2])
    except (ValueError, binascii.Error):
        raise InvalidSetting("the token is no JWT: it has no header and claims in base64") from None
    return header, claims


def _create_secret_key(args: argparse.Namespace) -> None:
    key = create_secret(args.signature_algorithm)
    data = base64.b64encode(key) if args.base64 else key
    if args.output:
        _write(args.output, data)
    else:
        sys.stdout.buffer.write(data)


def _create_key_pair(args: argparse.Namespace) -> None:
    private, public = create_key_pair(args.signature_algorithm)
    _write(args.output_private_key, private)
    _write(args.output_public_key, public)


def _create(args: argparse.Namespace) -> None:
    claims: dict[str, Any] = {"sub": args.subject, **plan_expiry(args.expiry_time, int(time.time()))}
    if args.secret_key:
        print(sign_with_secret(read_source("--secret-key", args.secret_key), claims))
    else:
        key = read_source("--private-key", args.private_key)
        print(sign_with_private_key(key, args.signature_algorithm, claims))


def _validate(args: argparse.Namespace) -> None:
    token = _token(args, os.environ)
    if args.secret_key:
        keys: Sequence[Any] = (secret_key(read_source("--secret-key", args.secret_key)),)
    else:
        keys = public_keys(read_source("--public-key", args.public_key))
    TokenVerifier(SecuritySettings(), keys).verify(token, time.time())
    claims = json.loads(decode_parts(token)[1])
    print("{" + ", ".join(f"{name}={value}" for name, value in claims.items()) + "}")


def _show(args: argparse.Namespace) -> None:
    header, claims = decode_parts(_token(args, os.environ))
    print(f"{header}\n---\n{claims}")


def _token(args: argparse.Namespace, environment: Mapping[str, str]) -> str:
    if args.token:
        return str(args.token).strip()
    if args.stdin:
        return sys.stdin.readline().strip()
    if args.token_file:
        with open(args.token_file) as file:
            return file.read().strip()
    if environment.get("TOKEN"):
        return environment["TOKEN"].strip()
    raise InvalidSetting("no token: name it, or give --stdin, --token-file FILE or the variable TOKEN")


def _write(path: str, data: bytes) -> None:
    """Write a key, for this user only."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        os.fchmod(file.fileno(), 0o600)  # one that was there keeps its mode otherwise
        file.write(data)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, what: str, algorithms: Sequence[str] = (), default: str = "") -> Any:
        added = commands.add_parser(name, help=what, description=what, allow_abbrev=False)
        added.set_defaults(run=run)
        if algorithms:
            added.add_argument("--signature-algorithm", "-a", default=default, choices=algorithms, metavar="NAME")
        return added

    made = command("create-secret-key", _create_secret_key, "Make a secret key.", tuple(SECRET_BYTES), "HS256")
    made.add_argument("--output", "-o", metavar="FILE", help="default: stdout")
    made.add_argument("--base64", "-b", action="store_true", help="write the key in base64")

    made = command("create-key-pair", _create_key_pair, "Make a private and a public key.", PAIR_ALGORITHMS, "RS256")
    made.add_argument("--output-private-key", required=True, metavar="FILE")
    made.add_argument("--output-public-key", required=True, metavar="FILE")

    made = command("create", _create, "Sign a token.", PAIR_ALGORITHMS, "RS256")
    made.add_argument("--subject", "-s", required=True, metavar="ROLE")
    made.add_argument("--expiry-time", "-e", metavar="PERIOD", help="such as 1h, 3d, 10y; default: never")
    _add_key(made, "--private-key")

    checked = command("validate", _validate, "Check a token and print its claims.", PAIR_ALGORITHMS, "RS256")
    _add_key(checked, "--public-key")
    for reader in (checked, command("show", _show, "Print a token's header and claims, unchecked.")):
        reader.add_argument("token", nargs="?", metavar="TOKEN")
        reader.add_argument("--stdin", "-i", action="store_true", help="read the token from stdin")
        reader.add_argument("--token-file", "-f", metavar="FILE")
    return parser


def _add_key(parser: argparse.ArgumentParser, other: str) -> None:
    """Take a secret or the key `other`: a path, a URL (`file:`, `data:`), or base64."""
    keys = parser.add_mutually_exclusive_group(required=True)
    keys.add_argument("--secret-key", "-sk", metavar="KEY", help="a path, a file: or data: URL, or base64")
    keys.add_argument(other, "-pk", metavar="KEY", help="the same")


def main(arguments: Sequence[str]) -> int:
    """Run the command that is named; return its exit code."""
    args = _parser().parse_args(arguments)
    try:
        args.run(args)
    except MledgerError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{PROGRAM}: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0
