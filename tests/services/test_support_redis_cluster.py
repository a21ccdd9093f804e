"""The cluster and the sentinels of the tests do what their names say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.support.binaries import redis_7_0
from tests.support.certificates import certificate
from tests.support.redis_cluster import RedisCluster
from tests.support.sentinels import Sentinels


def test_a_slot_moves_with_its_keys_and_a_failover_loses_what_no_replica_got(
    start_cluster: Callable[..., RedisCluster],
):
    cluster = start_cluster()
    first = cluster.owner("q")
    for number in range(25):
        first.ask("SET", f"{{q}}{number}", "value")

    cluster.move("q", cluster.another("q"))

    second = cluster.owner("q")
    assert second is not first
    assert len(second.ask("KEYS", "*")) == 25
    second.ask("WAIT", 1, 5000)
    third = cluster.fail_over("q", losing=lambda: second.ask("SET", "{q}lost", "value"))
    assert third not in (first, second)
    assert len(third.ask("KEYS", "*")) == 25
    with pytest.raises(redis.ConnectionError):
        second.ask("PING")


def test_its_clients_come_by_tls_where_there_is_a_certificate(
    start_cluster: Callable[..., RedisCluster], tmp_path: Path
):
    cluster = start_cluster(redis_7_0(), replicas=0, tls=certificate(tmp_path, "own"))
    told = cluster.nodes[0].ask("CLUSTER", "SLOTS")
    port, authority = cluster.nodes[0].tls_port, f"{tmp_path}/own.pem"
    with redis.Redis(host="127.0.0.1", port=port, ssl=True, ssl_ca_certs=authority) as client:
        assert client.ping()
    assert len(told) == 3
    assert cluster.url.startswith("rediss+cluster://127.0.0.1:")


def test_sentinels_promote_a_replica_and_what_it_did_not_get_is_lost(start_sentinels: Callable[..., Sentinels]):
    watched = start_sentinels()
    first = watched.primary()
    with first.client() as client:
        client.set("kept", "value")
        client.wait(2, 5000)

        second = watched.fail_over(losing=lambda: client.set("lost", "value"))

    with second.client() as client:
        assert client.keys() == [b"kept"]
    assert watched.primary() is second
    assert len(watched.replicas()) == 1
