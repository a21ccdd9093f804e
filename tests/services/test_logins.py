"""A login that is refused is a wrong configuration, not an outage: no repeat heals it (cases N02, N03)."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from redisjobs import migrations
from redisjobs.broker import Broker
from redisjobs.errors import ConfigurationError
from tests.support.servers import RedisServer

SECRET = "s3cret-of-nobody"


def test_a_database_or_role_that_is_not_there_names_the_login(database_url: str) -> None:
    for given, named in ({"dbname": "nowhere_at_all"}, "nowhere_at_all"), ({"user": "nobody_at_all"}, "nobody_at_all"):
        with pytest.raises(
            ConfigurationError, match=f"refuses the login: .*{named}.*; check user, password"
        ) as refused:
            migrations.missing(make_conninfo(database_url, **given, password=SECRET))
        assert SECRET not in str(refused.value)
        assert isinstance(refused.value.__cause__, psycopg.OperationalError)


async def test_a_wrong_redis_password_names_the_login_and_not_the_password(
    start_redis: Callable[..., RedisServer],
) -> None:
    server = start_redis(requirepass="right")
    broker = Broker.connect(server.url, password=SECRET)
    with pytest.raises(ConfigurationError, match=r"Redis refuses the login: [^.]*; check user and password") as refused:
        await broker.ping()
    assert SECRET not in str(refused.value)
    await broker.close()
