"""The address guard: what a delivery may be connected to, by whatever name it is asked for."""

from __future__ import annotations

import ipaddress
import ssl
from typing import Any

import httpcore2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redisjobs import OptionError
from redisjobs.webhooks.addresses import Allowed, closed, plain
from redisjobs.webhooks.answers import AddressRefused, NoAnswer
from redisjobs.webhooks.guard import Guard, resolve
from redisjobs.webhooks.http import HttpSender
from redisjobs.webhooks.target import read_url

PUBLIC, PUBLIC_6 = "93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"
NAMES = {
    "public.example": [PUBLIC],
    "public6.example": [PUBLIC_6],
    "localhost": ["127.0.0.1"],
    "localtest.example": ["127.0.0.1"],
    "six.example": ["::1"],
    "both.example": [PUBLIC, "10.0.0.5"],
    "both-again.example": ["169.254.169.254", PUBLIC],
    "mapped.example": ["::ffff:127.0.0.1"],
    "mapped-private.example": ["::ffff:a00:1"],
    "compatible.example": ["::7f00:1"],
    "nat64.example": ["64:ff9b::7f00:1"],
    "nat64-private.example": ["64:ff9b::a00:1"],
    "nat64-local.example": ["64:ff9b:1::808:808"],
    "six-to-four.example": ["2002:7f00:1::"],
    "teredo.example": ["2001:0:4136:e378:8000:63bf:3fff:fdd2"],
    "ula.example": ["fd00::1"],
    "ec2.example": ["fd00:ec2::254"],
    "link.example": ["fe80::1%eth0"],
    "site.example": ["fec0::1"],
    "multicast.example": ["224.0.0.1"],
    "multicast6.example": ["ff02::1"],
    "carrier.example": ["100.100.100.200"],
    "azure.example": ["168.63.129.16"],
    "oracle.example": ["192.0.0.192"],
    "zero.example": ["0.0.0.0"],
    "any6.example": ["::"],
    "broadcast.example": ["255.255.255.255"],
    "documentation.example": ["2001:db8::1"],
    "benchmark.example": ["198.18.0.1"],
    "metadata.google.internal": ["169.254.169.254"],
    "127.0.0.1.nip.example": ["127.0.0.1"],
    "garbled.example": ["not an address"],
}

# The host of a URL in every form in which people have got past such guards.
CORPUS = [
    "https://127.0.0.1/",
    "https://127.0.0.1:8443/",
    "https://127.1/",
    "https://127.0.1/",
    "https://127.127.127.127/",
    "https://0/",
    "https://0.0.0.0/",
    "https://0.0.0.0:22/",
    "https://2130706433/",
    "https://017700000001/",
    "https://0x7f000001/",
    "https://0x7f.0x0.0x0.0x1/",
    "https://0x7f.1/",
    "https://0177.0.0.1/",
    "https://0177.0x0.0.1/",
    "https://127.0.0.01/",
    "https://127.0.0.1./",
    "https://127。0。0。1/",
    "https://①②⑦.⓪.⓪.①/",
    "https://１２７.0.0.1/",
    "https://[::1]/",
    "https://[0:0:0:0:0:0:0:1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[0:0:0:0:0:ffff:7f00:1]/",
    "https://[::ffff:169.254.169.254]/",
    "https://[::127.0.0.1]/",
    "https://[64:ff9b::127.0.0.1]/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[64:ff9b:1::7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[2001::1]/",
    "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fe80::1%eth0]/",
    "https://[::1%25lo]/",
    "https://[fc00::1]/",
    "https://[fd00:ec2::254]/",
    "https://[ff02::1]/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.168.1.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://169.254.170.2/",
    "https://2852039166/",
    "https://0xA9FEA9FE/",
    "https://0251.0376.0251.0376/",
    "https://169.254.43518/",
    "https://100.100.100.200/",
    "https://168.63.129.16/",
    "https://192.0.0.192/",
    "https://224.0.0.1/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    "https://user@127.0.0.1/",
    "https://public.example@127.0.0.1/",
    "https://public.example:443@127.0.0.1/",
    "https://127.0.0.1@public.example/",
    "https://public.example\\@127.0.0.1/",
    "https://public.example/\\@127.0.0.1/",
    "https://127.0.0.1\\.public.example/",
    "https://public.example#@127.0.0.1/",
    "https://public.example/#",
    "https://127.0.0.1%00.public.example/",
    "https://127.0.0.1%2f.public.example/",
    "https://%31%32%37.0.0.1/",
    "https://public.example%2e127.0.0.1/",
    "https://127.0.0.1\t/",
    "https://127.0.0.1\n/",
    "https://pub\nlic.example/",
    "https:// 127.0.0.1/",
    "https://\x00127.0.0.1/",
    "https:///127.0.0.1/",
    "https:127.0.0.1/",
    "https:/127.0.0.1/",
    "//127.0.0.1/",
    "https://127.0.0.1:0/",
    "https://127.0.0.1:99999/",
    "https://public.example:-1/",
    "https://public.example:80:80/",
    "https://[127.0.0.1]/",
    "https://[::1/",
    "https://::1/",
    "https://[::1]:80:90/",
    "https://[::1].public.example/",
    "https://public.example,127.0.0.1/",
    "https://.127.0.0.1/",
    "https://..%2f/",
    "https://-/",
    "https:///",
    "https://",
    "",
    "http://public.example/",
    "http://public6.example/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "ftp://public.example/",
    "javascript:alert(1)",
    "unix:///var/run/docker.sock",
    *(f"https://{name}/" for name in NAMES if name not in ("public.example", "public6.example")),
    "https://LOCALHOST/",
    "https://localhost:6379/",
]


async def fake_names(host: str, port: int) -> list[str]:
    """Names of this test; numbers as the machine itself reads them, all its odd forms included."""
    if host in NAMES:
        return NAMES[host]
    return await resolve(host, port)


class Connected(Exception):
    """A connection was opened, to this address."""


@pytest.fixture(autouse=True)
def nothing_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect_tcp(self: object, host: str, port: int, **options: Any) -> None:
        raise Connected(host)

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect_tcp)


TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # an empty one: reading this machine's authorities takes a while


@pytest.fixture
def sender() -> HttpSender:
    return HttpSender(Allowed(), TLS, fake_names)


def test_the_corpus_is_large_and_has_no_url_twice():
    assert len(set(CORPUS)) == len(CORPUS) >= 60


@pytest.mark.parametrize("url", CORPUS, ids=ascii)
async def test_no_url_of_the_corpus_gets_through(url: str, sender: HttpSender):
    """H6: it is refused when it is read, or when its name was resolved; nothing is ever connected."""
    with pytest.raises((OptionError, AddressRefused)):
        await sender.post(read_url(url), {}, b"", 5)


@pytest.mark.parametrize(("host", "address"), [("public.example", PUBLIC), ("public6.example", PUBLIC_6)])
async def test_a_public_name_is_connected_to_by_the_address_that_was_checked(
    host: str, address: str, sender: HttpSender
):
    with pytest.raises(Connected, match=address):
        await sender.post(read_url(f"https://{host}/"), {}, b"", 5)


@pytest.mark.parametrize("url", [f"https://{PUBLIC}/", f"https://[{PUBLIC_6}]:8443/x?y"])
async def test_a_public_address_gets_through(url: str, sender: HttpSender):
    with pytest.raises(Connected):
        await sender.post(read_url(url), {}, b"", 5)


async def test_a_name_that_answers_otherwise_the_second_time_is_asked_once():
    """Rebinding: public when it is checked, inside when it is connected to."""
    answers = iter([[PUBLIC], ["127.0.0.1"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers)

    with pytest.raises(Connected, match=PUBLIC):
        await HttpSender(Allowed(), TLS, rebinding).post(read_url("https://public.example/"), {}, b"", 5)
    assert next(answers) == ["127.0.0.1"], "nobody asked again"


async def test_a_network_of_the_allow_list_may_be_reached_also_without_tls():
    allowing = HttpSender(Allowed.of(["10.0.0.0/8", "::1"]), TLS, fake_names)

    for url in ("http://10.0.0.1/", "https://10.0.0.1/", "http://six.example/", "http://[::ffff:10.0.0.1]/"):
        with pytest.raises(Connected):
            await allowing.post(read_url(url), {}, b"", 5)
    for url in ("http://127.0.0.1/", "https://169.254.169.254/", "http://public.example/"):
        with pytest.raises(AddressRefused):
            await allowing.post(read_url(url), {}, b"", 5)


async def test_one_closed_address_among_public_ones_refuses_all(sender: HttpSender):
    with pytest.raises(AddressRefused, match=r"both\.example is 10\.0\.0\.5, a private network"):
        await sender.post(read_url("https://both.example/"), {}, b"", 5)


async def test_a_name_that_does_not_resolve_is_no_answer_and_no_refusal():
    async def nowhere(host: str, port: int) -> list[str]:
        raise OSError("Name or service not known")

    async def nothing(host: str, port: int) -> list[str]:
        return []

    for each in (nowhere, nothing):
        with pytest.raises(NoAnswer, match=r"public\.example"):
            await HttpSender(Allowed(), TLS, each).post(read_url("https://public.example/"), {}, b"", 5)


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch, sender: HttpSender):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:3128")

    with pytest.raises(Connected, match=PUBLIC):
        await sender.post(read_url("https://public.example/"), {}, b"", 5)


async def test_a_unix_socket_cannot_be_reached():
    with pytest.raises(NotImplementedError):
        await Guard(Allowed()).connect_unix_socket("/run/docker.sock")


@given(st.ip_addresses())
def test_nothing_that_python_calls_private_is_open(address: ipaddress.IPv4Address | ipaddress.IPv6Address):
    meant = plain(address)
    if not meant.is_global or meant.is_multicast or meant.is_reserved:
        assert closed(address) is not None


@given(st.ip_addresses(v=4))
def test_an_address_of_ipv4_is_judged_alike_behind_each_of_its_disguises(address: ipaddress.IPv4Address):
    mapped = ipaddress.IPv6Address(f"::ffff:{address}")
    behind_nat64 = ipaddress.IPv6Address(int(ipaddress.IPv6Address("64:ff9b::")) | int(address))

    assert closed(mapped) == closed(behind_nat64) == closed(address)


@pytest.mark.parametrize("networks", ["10.0.0.0/8", [7, "x"], ["10.0.0.1/8"], ["example.com"], None, {"10.0.0.0/8"}])
def test_what_is_no_allow_list_is_refused(networks: Any):
    with pytest.raises(OptionError, match="allow"):
        Allowed.of(networks)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://Hooks.Example/a/b?token=s3cret", "https://hooks.example/a/b?…"),
        ("https://hooks.example", "https://hooks.example/"),
        ("https://hooks.example?token=s3cret", "https://hooks.example/?…"),
        ("http://hooks.example:8080/", "http://hooks.example:8080/"),
        ("https://hooks.example:443/", "https://hooks.example/"),
        (f"https://[{PUBLIC_6}]:8443/x", f"https://[{PUBLIC_6}]:8443/x"),
    ],
)
def test_a_url_is_shown_without_its_query(url: str, shown: str):
    target = read_url(url)

    assert target.shown == shown
    assert "s3cret" not in repr(target)


@pytest.mark.parametrize("url", ["https://user:s3cret@hooks.example/", "https://hooks.example/ s3cret", "s3cret", None])
def test_what_is_said_of_a_refused_url_shows_nothing_of_it(url: Any):
    with pytest.raises(OptionError) as refused:
        read_url(url)

    assert "s3cret" not in str(refused.value)


def test_a_url_of_more_than_2048_characters_is_refused():
    assert read_url("https://hooks.example/" + "a" * 2026)
    with pytest.raises(OptionError, match="2049 characters"):
        read_url("https://hooks.example/" + "a" * 2027)
