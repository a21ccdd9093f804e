"""Redis over TLS: the whole road works, and a server that cannot show the right certificate is refused.

The way to Postgres is libpq's own, with the options of the URL as they are.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.binaries import redis_7_0
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


@dataclass(frozen=True)
class Certificate:
    """A certificate for 127.0.0.1 that signed itself, and its key, as files."""

    cert: Path
    key: Path


def certificate(folder: Path, name: str) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    files.cert.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    files.key.touch(mode=0o600)
    files.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


@pytest.fixture
def redis_url(tmp_path: Path, start_redis: Callable[..., RedisServer]) -> str:
    """A Redis of this test's own, by its port for TLS; whose authority is trusted is not said yet."""
    own, port = certificate(tmp_path, "own"), free_port()
    start_redis(  # Debian's is built with TLS, and the one in the wheel is not
        redis_7_0(), tls_port=str(port), tls_cert_file=str(own.cert), tls_key_file=str(own.key),
        tls_ca_cert_file=str(own.cert), tls_auth_clients="no",
    )  # fmt: skip
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
