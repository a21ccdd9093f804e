"""N02: passwords of any kind, and none of them shown."""

from __future__ import annotations

from urllib.parse import quote, unquote, urlsplit

import pytest
import redis
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from redisjobs.base.urls import POSTGRES, REDIS, check_url, redact, with_password
from redisjobs.errors import ConfigurationError

ODD = "p@ss/w#%+:?"
ENCODED = quote(ODD, safe="")


def test_an_encoded_password_is_taken_as_it_is():
    url = f"redis://user:{ENCODED}@host:6379/1"

    assert check_url("redis_url", url, REDIS) == url
    assert redis.ConnectionPool.from_url(url).connection_kwargs["password"] == ODD


@pytest.mark.parametrize("scheme", ["redis", "rediss", "postgresql", "postgres"])
def test_a_raw_password_is_refused_and_no_part_of_it_shown(scheme: str):
    with pytest.raises(ConfigurationError, match="percent-encoded") as refused:
        check_url("some_url", f"{scheme}://someone:{ODD}@somewhere:1234/0", REDIS if "redis" in scheme else POSTGRES)

    assert not any(part in str(refused.value) for part in (ODD, "p@ss", "w#", "ss/w", "someone", "somewhere"))


@pytest.mark.parametrize("sign", list("@/#? \n%"))
@pytest.mark.parametrize("password", ["se{}cret", "{}secret", "secret{}", "12{}x34"])
def test_each_sign_that_tears_a_url_apart_is_seen(sign: str, password: str):
    url = f"redis://user:{password.format(sign)}@host:6379/0"

    with pytest.raises(ConfigurationError, match="percent-encoded") as refused:
        check_url("redis_url", url, REDIS)

    assert "secret" not in str(refused.value)
    assert redact(url) == "redis://***"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://localhost/db",
        "postgresql://user@host/db?sslmode=require&application_name=a",
        "postgresql://u:p@[::1]:5432/db",
        "postgresql:///db?host=/tmp&user=me@corp",
        "postgresql://u:p@h1:5432,h2:5433/db?target_session_attrs=read-write",
        "postgresql://h1,[::1]:5432/db",
        "postgresql://u:p@[::1]:5433,h1,[::2]/db",
        "postgresql://[fe80::1%25eth0]/db",
        "postgres://u:a+b:c!$&'()*,;=@host/db",
        "host=/tmp dbname=x password='a b@#%'",
    ],
)
def test_what_postgres_takes_is_taken(url: str):
    assert check_url("database_url", url, POSTGRES) == url


def test_hosts_in_brackets_are_read_alike_by_every_python(monkeypatch: pytest.MonkeyPatch):
    """The `urlsplit` of newer ones refuses a bracket behind a comma."""

    def refuses(*_: object, **__: object) -> None:
        raise ValueError("Invalid IPv6 URL")

    monkeypatch.setattr("urllib.parse.urlsplit", refuses)
    monkeypatch.setattr("redisjobs.base.urls.urlsplit", refuses, raising=False)
    url = "postgresql://u:secret@h1,[::1]:5432/db?sslmode=require"

    assert check_url("database_url", url, POSTGRES) == url
    assert redact(url) == "postgresql://u:***@h1,[::1]:5432/db?sslmode=require"
    assert with_password(url, "a/b") == "postgresql://u:a%2Fb@h1,[::1]:5432/db?sslmode=require"
    with pytest.raises(ConfigurationError, match="names the port 99999"):
        check_url("database_url", "postgresql://h1,[::1]:99999/db", POSTGRES)


@pytest.mark.parametrize(
    "url", ["redis://[no::address::]/0", "redis://[127.0.0.1]/0", "redis://[::1/0", "redis://::1]/0"]
)
def test_brackets_hold_an_address_of_ipv6(url: str):
    with pytest.raises(ConfigurationError, match="redis_url cannot be read"):
        check_url("redis_url", url, REDIS)


@pytest.mark.parametrize("password", ["a[b", "a]b", "a[b]c", "\u2105"])
def test_what_the_client_of_redis_could_not_read_is_refused(password: str):
    with pytest.raises(ConfigurationError, match="percent-encoded"):
        check_url("redis_url", f"redis://u:{password}@h/0", REDIS)


@pytest.mark.parametrize(
    "url", ["redis://localhost", "rediss://:p@h:6380/2", "unix:///tmp/redis.sock?db=1", "redis://h?db=3"]
)
def test_what_redis_takes_is_taken(url: str):
    assert check_url("redis_url", url, REDIS) == url


@pytest.mark.parametrize("url", ["", "  ", "localhost:6379", "http://user:secret@host", "mysql://secret@h", "secret"])
def test_another_scheme_is_refused_without_showing_it(url: str):
    with pytest.raises(ConfigurationError, match="redis_url") as refused:
        check_url("redis_url", url, REDIS)

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@h:1/0", "redis://:***@h:1/0"),
        ("redis://u:secret@h", "redis://u:***@h"),
        ("redis://h?password=secret&db=1", "redis://h?password=***&db=1"),
        ("postgresql://u:secret@h/db?sslmode=require", "postgresql://u:***@h/db?sslmode=require"),
        ("postgresql://u@h/db?sslpassword=secret", "postgresql://u@h/db?sslpassword=***"),
        ("host=h password=secret dbname=x", "host=h password=*** dbname=x"),
        (r"host=h password='se\'cret x' dbname=x", "host=h password=*** dbname=x"),
        ("password = 'secret", "password = ***"),
        (r"host=h password=se\ cret dbname=x", "host=h password=*** dbname=x"),
        ("host=h password=top secret dbname=x", "host=h password=*** dbname=x"),
        ("postgresql://u:secret@h1:5432,h2:5433/db", "postgresql://u:***@h1:5432,h2:5433/db"),
        ("rediss://h?ssl_password=secret", "rediss://h?ssl_password=***"),
        ("postgresql://h/db?scram_client_key=secret", "postgresql://h/db?scram_client_key=***"),
        ("secret", "***"),
        ("postgresql://h/db", "postgresql://h/db"),
    ],
)
def test_what_is_shown_has_no_password(url: str, shown: str):
    assert redact(url) == shown


@given(st.text(min_size=4).filter(lambda text: text.strip()))
@example(ODD)
@example("a'b\\c d")
def test_a_password_given_apart_arrives(password: str):
    if not _encodable(password):
        return
    assert unquote(urlsplit(with_password("redis://u@h:1/0", password)).password or "") == password
    if "\0" not in password:
        for url in (
            "postgresql://u@h/d",
            "postgresql://u:old@h/d",
            "host=h user=u",
            "postgresql:///d?host=/tmp&user=u",
        ):
            assert conninfo_to_dict(with_password(url, password))["password"] == password


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def test_the_driver_that_sqlalchemy_wants_in_a_url_is_to_be_left_out():
    with pytest.raises(
        ConfigurationError, match=r"database_url must begin with postgresql:// .*: leave out \+psycopg$"
    ):
        check_url("database_url", "postgresql+psycopg://me@db/shop", POSTGRES)


def test_a_port_that_there_cannot_be_is_named():
    with pytest.raises(ConfigurationError, match="redis_url names the port 99999, and 65535 is the highest"):
        check_url("redis_url", "redis://h:99999/0", REDIS)


@pytest.mark.parametrize("url", ["redis://localhost:notaport/0", "redis://[::x]:6379"])
def test_a_host_or_port_that_is_none_is_named_as_what_it_is(url: str):
    with pytest.raises(ConfigurationError, match="a host or port in it is none"):
        check_url("redis_url", url, ("redis",))
