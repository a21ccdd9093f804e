"""The look at the stores before a long-running command begins: what is wrong is said at once, and ends it."""

from __future__ import annotations

from redisjobs import migrations
from redisjobs.broker.view import View
from redisjobs.errors import ConfigurationError
from redisjobs.settings import Settings


def need_redis(settings: Settings) -> None:
    """Return if Redis answers.

    Raises:
        BrokerUnavailable, StoreRefused, ConfigurationError: it does not, or there is no URL.
    """
    with View(settings.need_redis_url(), settings.prefix) as view:
        view.ping()


def need_tables(settings: Settings) -> None:
    """Return if Postgres answers and has every table.

    Raises:
        DatabaseUnavailable, StoreRefused: it does not answer, or forbids to look.
        ConfigurationError: there is no URL, or a migration is missing.
    """
    missing = migrations.missing(settings.need_database_url(), settings.schema)
    if missing:
        raise ConfigurationError(
            f"schema {settings.schema} lacks {', '.join(missing)}: run `redisjobs migrate` with a role that owns it"
        )
