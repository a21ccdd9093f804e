"""Redis over TLS: the whole road works, and a server that cannot show the right certificate is refused.

The way to Postgres is libpq's own, with the options of the URL as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.support.binaries import redis_7_0
from tests.support.certificates import certificate
from tests.support.cli import CommandLine
from tests.support.net import free_port
from tests.support.processes import Processes
from tests.support.servers import RedisServer

SHOP = """
    from redisjobs import App

    app = App("shop")

    @app.job
    def work(number: int) -> None:
        print(f"number {number} came over TLS", flush=True)
"""


@pytest.fixture
def redis_url(tmp_path: Path, start_redis: Callable[..., RedisServer]) -> str:
    """A Redis of this test's own, by its port for TLS; whose authority is trusted is not said yet."""
    own, port = certificate(tmp_path, "own"), free_port()
    start_redis(redis_7_0(), **own.redis_options(port))  # Debian's is built with TLS, and the one in the wheel is not
    return f"rediss://127.0.0.1:{port}/0"


def test_a_job_takes_the_whole_road_over_tls(redis_url: str, database_url: str, tmp_path: Path):
    env = {
        "REDISJOBS_DATABASE_URL": database_url,
        "REDISJOBS_REDIS_URL": f"{redis_url}?ssl_ca_certs={tmp_path}/own.pem",
    }
    with Processes(tmp_path, env) as processes:
        processes.module("shop", SHOP)
        processes.redisjobs("relay")
        worker = processes.redisjobs("worker", "shop:app")
        with psycopg.connect(database_url) as connection:
            connection.execute("SELECT redisjobs.enqueue('work', '[7]')")

        worker.says_now("number 7 came over TLS", within=30)
        assert worker.stop() == 0


@pytest.mark.parametrize("authority", ["", "?ssl_ca_certs={}/foreign.pem"])
def test_a_server_with_a_certificate_of_others_is_refused_with_a_word_on_it(
    redis_url: str, database_url: str, tmp_path: Path, authority: str
):
    certificate(tmp_path, "foreign")
    redisjobs = CommandLine({
        "REDISJOBS_DATABASE_URL": database_url, "REDISJOBS_REDIS_URL": redis_url + authority.format(tmp_path),
    })  # fmt: skip

    told = redisjobs("status", code=69).output

    assert "certificate verify failed" in told
