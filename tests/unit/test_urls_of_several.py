"""Redis URLs that name several servers: nodes of a cluster, or sentinels."""

from __future__ import annotations

from typing import Any

import pytest

from redisjobs import App
from redisjobs.base.urls import REDIS, check_url, redact, redis_servers, with_password
from redisjobs.broker.client import connect, connect_sync
from redisjobs.broker.cluster import Cluster, SyncCluster
from redisjobs.errors import ConfigurationError


@pytest.mark.parametrize(
    ("url", "kind", "hosts", "service", "one"),
    [
        ("redis://h/1", "one", [], "", "redis://h/1"),
        ("redis+cluster://h", "cluster", [("h", 6379)], "", "redis://h"),
        (
            "rediss+cluster://u:p%40@h1:7000,h2,[::1]:7001/0?ssl_ca_certs=/ca.pem", "cluster",
            [("h1", 7000), ("h2", 6379), ("::1", 7001)], "", "rediss://u:p%40@h1:7000?ssl_ca_certs=/ca.pem",
        ),
        ("redis+sentinel://h1,h2:5000/shop", "sentinel", [("h1", 26379), ("h2", 5000)], "shop", "redis://h1/"),
        ("rediss+sentinel://:p@h1,h2/a%2Fb/3", "sentinel", [("h1", 26379), ("h2", 26379)], "a/b", "rediss://:p@h1/3"),
    ],
)  # fmt: skip
def test_hosts_and_names_are_read(url: str, kind: str, hosts: list[tuple[str, int]], service: str, one: str):
    assert tuple(redis_servers(check_url("redis_url", url, REDIS))) == (kind, hosts, service, one)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://h1,h2/0", r"several servers.*redis\+cluster://"),
        ("rediss://h1:1,h2:2", r"rediss\+sentinel://"),
        ("redis+cluster://h1/2", "the database 2, and a cluster has none but 0"),
        ("redis+sentinel://h1,h2", r"does not say whom the sentinels watch.*/NAME"),
        ("redis+sentinel://h1/shop/first", "'first', and it has to be a number"),
        ("redis+cluster://:7000", "names no host"),
        ("redis+sentinel:///shop", "names no host"),
        ("redis+cluster://h1:70000", "70000"),
        ("redis+asyncio://h1", r"leave out \+asyncio"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_form_to_write(url: str, told: str):
    with pytest.raises(ConfigurationError, match=told):
        App(redis_url=url)


def test_passwords_of_both_are_hidden():
    url = "redis+sentinel://u:secret@h1,h2:5000/shop/0?sentinel_username=s&sentinel_password=secret"

    assert redact(url) == "redis+sentinel://u:***@h1,h2:5000/shop/0?sentinel_username=s&sentinel_password=***"
    assert with_password("redis+cluster://u@h1,h2", "p@s") == "redis+cluster://u:p%40s@h1,h2"


async def test_every_node_is_reached_with_the_login_and_the_authority_of_the_url():
    url = "rediss+cluster://u:p%40@h1:7000,h2:7001?ssl_ca_certs=/ca.pem"
    many: Any = connect(url)
    many_sync: Any = connect_sync(url)
    assert isinstance(many, Cluster)
    assert isinstance(many_sync, SyncCluster)
    for made, host in ((many, "h1"), (many_sync, "h2")):
        router: Any = made._router
        place = next(each for each in router.slots.to_ask() if each.host == host)
        pool = made._nodes.at(place).connection_pool
        known = pool.connection_kwargs
        assert (known["host"], known["port"]) == (place.host, place.port)
        assert (known["username"], known["password"], known["ssl_ca_certs"]) == ("u", "p@", "/ca.pem")
        assert "SSL" in pool.connection_class.__name__
        assert (known["socket_timeout"], known["protocol"]) == (10, 2)


async def test_sentinels_have_a_login_of_their_own():
    url = "rediss+sentinel://u:p@h1,h2:5000/shop/3?sentinel_username=s&sentinel_password=q&ssl_ca_certs=/ca.pem"
    for client in (connect(url), connect_sync(url)):
        pool: Any = client.connection_pool
        known = pool.connection_kwargs
        assert (known["username"], known["password"], known["db"]) == ("u", "p", 3)
        assert "sentinel_password" not in known
        assert "Sentinel" in pool.connection_class.__name__
        for sentinel in pool.sentinel_manager.sentinels:
            asked = sentinel.connection_pool
            assert (asked.connection_kwargs["username"], asked.connection_kwargs["password"]) == ("s", "q")
            assert asked.connection_kwargs["ssl_ca_certs"] == "/ca.pem"
            assert asked.connection_class.__name__ == "SSLConnection"
