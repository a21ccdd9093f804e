"""`manage.py redisjobs …`: the command `redisjobs`, on the stores of the project's settings."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Generator
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from redisjobs.cli import main
from redisjobs.errors import ConfigurationError
from redisjobs.integrations.django.app import app_of
from redisjobs.integrations.django.configuration import first_alias, queues_of
from redisjobs.settings import Settings

_PLACE = "redisjobs.integrations.django.serve:app"


class Command(BaseCommand):
    """Passes its words on."""

    help = (
        "The command redisjobs on the stores of this project: `redisjobs migrate`, `redisjobs dev`, `redisjobs relay`, "
        "`redisjobs worker`, `redisjobs status`, … `redisjobs -- --help` tells of all."
    )
    requires_system_checks = ()
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        """Everything behind the subcommand is its own."""
        parser.add_argument(
            "--tasks", metavar="ALIAS", default=None, help="Which backend in TASKS; the first one of redisjobs."
        )
        parser.add_argument("args", nargs=argparse.REMAINDER, metavar="WORDS", help="What `redisjobs` is to do.")

    def handle(self, *args: str, **options: Any) -> None:
        """Run it; the process ends with its exit code, unless that is 0."""
        words = list(args[1:] if args[:1] == ("--",) else args) or ["--help"]
        alias = options["tasks"] or first_alias()
        try:
            stores = app_of(alias).settings
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=78) from error
        try:
            with _environment(alias):
                main([*_words(stores), *words], prog_name="python manage.py redisjobs")
        except SystemExit as ended:
            if ended.code:
                raise


def _words(stores: Settings) -> list[str]:
    """The stores, as options that stand before the subcommand."""
    options = {
        "--database-url": stores.database_url, "--redis-url": stores.redis_url,
        "--schema": stores.schema, "--prefix": stores.prefix,
    }  # fmt: skip
    return [word for option, value in options.items() if value for word in (option, value)]


@contextlib.contextmanager
def _environment(alias: str) -> Generator[None]:
    """Where the app is and which queues it has, for this command and for the processes that it starts."""
    before = dict(os.environ)
    os.environ["REDISJOBS_TASKS"] = alias
    os.environ.setdefault("REDISJOBS_APP", _PLACE)
    if queues_of(alias):
        os.environ.setdefault("REDISJOBS_QUEUES", ",".join(queues_of(alias)))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
