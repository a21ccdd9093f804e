"""Which addresses a webhook may reach: public ones, and those of networks that were allowed by name."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TypeAlias, cast

from redisjobs.errors import OptionError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# What IANA's registries of special-purpose addresses say is not for the public, written out: what Python's own
# `is_global` knows differs from release to release. One public address serves a cloud's virtual machines their keys.
_CLOSED_4 = tuple(
    (IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "a network shared behind a carrier's NAT"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's metadata"),
        ("169.254.0.0/16", "link-local, where clouds have their metadata"),
        ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "documentation"),
        ("192.31.196.0/24", "reserved for AS112"),
        ("192.52.193.0/24", "reserved for AMT"),
        ("192.88.99.0/24", "6to4 relays"),
        ("192.168.0.0/16", "a private network"),
        ("192.175.48.0/24", "reserved for AS112"),
        ("198.18.0.0/15", "benchmarks"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved, or broadcast"),
    )
)
_PUBLIC_6 = IPv6Network("2000::/3")
_CLOSED_6 = tuple(
    (IPv6Network(network), what)
    for network, what in (
        ("2001::/23", "reserved for protocols, or Teredo"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4, which leads to an IPv4 address"),
        ("2620:4f:8000::/48", "reserved for AS112"),
        ("3ffe::/16", "the former 6bone"),
        ("3fff::/20", "documentation"),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may be reached besides public addresses."""

    networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, networks: Sequence[str], name: str = "allow") -> Allowed:
        """The networks of an allow-list, such as `["10.1.0.0/16", "fd12:3456::/32"]`.

        Raises:
            OptionError: one of them is none.
        """
        given = cast(object, networks)
        if isinstance(given, str) or not isinstance(given, (list, tuple)):
            raise OptionError(name, given, 'is no list of networks: pass for example ["10.1.0.0/16"]')
        return cls(tuple(_network(name, each) for each in networks))

    def names(self, address: Address) -> bool:
        """Whether it lies in a network of the list, itself or by the IPv4 address that it stands for."""
        both = {address, plain(address)}
        return any(each.version == network.version and each in network for network in self.networks for each in both)

    def refusal(self, address: Address) -> str | None:
        """Why this address may not be reached; None: it may."""
        return None if self.names(address) else closed(address)


def plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, mapped or behind NAT64; else the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def closed(address: Address) -> str | None:
    """What this address is, where it is not a public one; None: it is."""
    meant = plain(address)
    if isinstance(meant, IPv4Address):
        return next((what for network, what in _CLOSED_4 if meant in network), None)
    if meant not in _PUBLIC_6 or meant.scope_id is not None:
        return _kind_of(meant)
    return next((what for network, what in _CLOSED_6 if meant in network), None)


def _kind_of(address: IPv6Address) -> str:
    kinds = (
        (address.is_loopback, "loopback"),
        (address.is_link_local, "link-local"),
        (address.is_private, "a private network"),
        (address.is_multicast, "multicast"),
    )
    return next((what for holds, what in kinds if holds), "reserved")


def _network(name: str, text: object) -> Network:
    try:
        return ipaddress.ip_network(str(text))
    except ValueError as error:
        why = f"is no network ({error}): pass an address, or one with a mask such as 10.1.0.0/16"
        raise OptionError(name, text, why) from None
