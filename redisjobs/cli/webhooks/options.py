"""What the commands on webhooks share."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

import click

from redisjobs.cli import exits
from redisjobs.cli.options import given
from redisjobs.errors import OptionError
from redisjobs.webhooks.admin import EndpointAdmin
from redisjobs.webhooks.endpoint import check_headers, check_name
from redisjobs.webhooks.keys import generate_secret, public_key, signing_keys
from redisjobs.webhooks.sealing import Seal

JOB = click.option(
    "--job", default="webhook", show_default=True, metavar="NAME", help="The name= of webhook(…) in your program."
)
QUEUE = click.option(
    "--queue", default="webhooks", show_default=True, metavar="NAME", help="The queue= of webhook(…) in your program."
)
ED25519 = click.option(
    "--ed25519", is_flag=True, help="A key pair, of which the receiver gets the public half; else a secret for HMAC."
)
SECRET_STDIN = click.option(
    "--secret-stdin", is_flag=True, help="Take the secret from a line of stdin, instead of making one."
)


@contextmanager
def admin() -> Generator[EndpointAdmin]:
    """The door to the endpoints of the stores that were given."""
    settings = given().settings()
    with EndpointAdmin(settings.need_database_url(), settings.schema, Seal.of_environment()) as opened:
        yield opened


def endpoint_name(value: str) -> str:
    """An endpoint's name."""
    try:
        return check_name(value)
    except OptionError as error:
        raise click.BadParameter(f"{error}.") from None


def header(value: str) -> tuple[str, str]:
    """A header as `name: value`."""
    name, colon, rest = value.partition(":")
    try:
        ((checked, kept),) = check_headers({name.strip(): rest.strip()}).items()
    except OptionError as error:
        raise click.BadParameter(f"{error}.") from None
    if not colon:
        raise click.BadParameter("it has no colon: pass 'name: value'.")
    return checked, kept


def unknown(name: str) -> exits.Fault:
    """What is said of an endpoint that Postgres does not know."""
    return exits.Fault(
        f"no endpoint {name!r} is known in this database: `redisjobs webhooks endpoints list` shows those that are. "
        "One that a program declares is known from its first delivery on"
    )


def new_secret(*, ed25519: bool, from_stdin: bool) -> str:
    """A secret that was given, or a new one.

    Raises:
        OptionError: what was given is none.
    """
    if not from_stdin:
        return generate_secret("ed25519" if ed25519 else "hmac")
    secret = sys.stdin.readline().strip()
    signing_keys(secret, "the secret")
    return secret


def for_receiver(secret: str) -> dict[str, str]:
    """What the receiver is to be given of a secret."""
    return {"public_key": public_key(secret)} if secret.startswith("whsk_") else {"secret": secret}
