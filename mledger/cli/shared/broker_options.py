"""The options of commands that ask brokers over HTTP. A token is never an argument: others could see it."""

import os
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from mledger.admin.broker_access import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, read_access


def broker_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --token-file and --trust-certs to `command`, which gets the access that they name as `access`."""

    @wraps(command)
    def with_access(*arguments: Any, token_file: str | None, trust_certs: str | None, **options: Any) -> None:
        command(*arguments, access=read_access(token_file, trust_certs, os.environ), **options)

    for option in (
        click.option(
            "--trust-certs", metavar="FILE", help="PEM file of the authorities of brokers' certificates, for HTTPS."
        ),
        click.option(
            "--token-file",
            metavar="FILE",
            help=f"File with the token that brokers want.  [env: {TOKEN_FILE_VARIABLE}; a token: {TOKEN_VARIABLE}]",
        ),
    ):
        with_access = option(with_access)
    return with_access
