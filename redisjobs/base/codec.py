"""Codecs: arguments and results to bytes and back, exact in value and in type. Never pickle."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from redisjobs.base import packing
from redisjobs.base.durations import many
from redisjobs.base.plain import Refusal, is_json, to_json
from redisjobs.errors import ConfigurationError, DecodeError, EncodeError, OptionError

LARGEST = 1_048_576
"""Bytes of an encoded value."""

JSON = "json"
MSGPACK = "msgpack"

_NAME = re.compile(r"[a-z0-9_.-]{1,40}\Z")


class Codec(Protocol):
    """A codec of one's own, around the built-in ones: bytes in, bytes out.

    `name` is stored with each payload: readers find the codec by it.
    """

    @property
    def name(self) -> str: ...

    def wrap(self, codec: str, payload: bytes) -> bytes:
        """The bytes that are stored, for a payload of a built-in codec."""
        ...

    def unwrap(self, stored: bytes) -> tuple[str, bytes]:
        """The built-in codec and payload in the stored bytes; raises DecodeError."""
        ...


class Codecs:
    """The codecs of an app: what it writes with, and all that it can read.

    Args:
        outer: wraps every payload that this app writes, such as an `EncryptedCodec`. Payloads of the built-in
            codecs are read all the same.
    """

    def __init__(self, outer: Codec | None = None) -> None:
        self._outer = outer
        if outer is not None and (not _NAME.match(outer.name) or outer.name in (JSON, MSGPACK)):
            why = "cannot be the codec's name: pass 1 to 40 of a-z, 0-9 and _.-, and not json or msgpack"
            raise OptionError("codec", outer.name, why)

    def encode(self, value: Any, what: str = "") -> tuple[str, bytes]:
        """The codec's name and the bytes of plain data: JSON where that is exact, else msgpack.

        Args:
            what: begins the path in a refusal, for what has no name of its own.

        Raises:
            EncodeError: a value in it cannot travel, or the whole is above 1 MiB.
        """
        try:
            codec = JSON if is_json(value) else MSGPACK
        except Refusal as refusal:
            raise refusal.as_error(what) from None
        except RecursionError:
            raise EncodeError(what or "the arguments", "are nested too deep to be encoded from here") from None
        payload = to_json(value).encode() if codec == JSON else packing.pack(value)
        if self._outer is not None:
            codec, payload = self._outer.name, self._outer.wrap(codec, payload)
        if len(payload) > LARGEST:
            why = f"are {len(payload)} bytes encoded, and {LARGEST} is the most: store the data and pass where it is"
            raise EncodeError(what or "the arguments", why)
        return codec, payload

    def decode(self, codec: str, payload: bytes) -> Any:
        """The plain data in a payload.

        Raises:
            DecodeError: it cannot be read. The text shows nothing of it.
        """
        if codec == JSON:
            return _read_json(payload)
        if codec == MSGPACK:
            return _read_msgpack(payload)
        if self._outer is not None and codec == self._outer.name:
            inner, payload = self._outer.unwrap(payload)
            return _read_json(payload) if inner == JSON else _read_msgpack(payload)
        raise DecodeError(f"codec {codec[:40]!r} is not known here: this app reads {', '.join(self.names())}")

    def bare(self, codec: str, payload: bytes) -> tuple[str, bytes]:
        """The built-in codec and the payload in stored bytes, for a reader that knows no other codec.

        Raises:
            DecodeError: they cannot be read.
        """
        if self._outer is not None and codec == self._outer.name:
            return self._outer.unwrap(payload)
        return codec, payload

    def names(self) -> list[str]:
        """The codecs that can be read."""
        return [JSON, MSGPACK, *([self._outer.name] if self._outer else [])]


def _refuse_constant(_name: str) -> NoReturn:
    raise ValueError


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
_scan: Callable[[str, int], tuple[Any, int]] = getattr(_decoder, "scan_once")  # noqa: B009  # not in its type stubs


def _read_json(payload: bytes) -> Any:
    try:
        text = payload.decode()
        try:
            value, end = _scan(text, 0)
            if end == len(text):
                return value
        except StopIteration:
            pass
        return _decoder.decode(text)  # with spaces around it, or an error that says where
    except (ValueError, RecursionError) as error:
        raise _unreadable(JSON, payload, error) from None


def _read_msgpack(payload: bytes) -> Any:
    try:
        return packing.unpack(payload)
    except Exception as error:  # noqa: BLE001  # whatever these bytes make msgpack and the types raise
        raise _unreadable(MSGPACK, payload, error) from None


def _unreadable(codec: str, payload: bytes, error: Exception) -> DecodeError:
    return DecodeError(f"the payload is no readable {codec} ({type(error).__name__}, {many(len(payload), 'byte')})")


class EncryptedCodec:
    """Encrypts what is stored, with AES-GCM: neither Postgres nor Redis ever sees an argument or a result.

    Names, keys, tenants and headers are not encrypted: the stores work with them.

    Needs the extra `redisjobs-pg[encryption]`. To rotate keys, put the new one first and keep the old ones
    behind it until their last job has ended.

    Args:
        keys: each 16, 24 or 32 bytes, or such bytes as urlsafe base64 text, as `generate_key` makes. The first
            encrypts, each decrypts. One key is good for 2**32 values.

    Raises:
        ConfigurationError: no keys, one of a wrong length, or the extra is not installed.
    """

    name = "encrypted"

    def __init__(self, keys: list[bytes | str]) -> None:
        try:
            from redisjobs.base.encryption import Ring  # noqa: PLC0415  # its library is an extra
        except ImportError:
            raise ConfigurationError(
                "EncryptedCodec needs the library cryptography: pip install 'redisjobs-pg[encryption]'"
            ) from None
        self._ring = Ring(keys)

    @staticmethod
    def generate_key() -> str:
        """A new key, as text."""
        from redisjobs.base.encryption import generate_key  # noqa: PLC0415  # its library is an extra

        return generate_key()

    def wrap(self, codec: str, payload: bytes) -> bytes:
        """The encrypted payload."""
        return self._ring.encrypt(codec.encode() + b"\0" + payload)

    def unwrap(self, stored: bytes) -> tuple[str, bytes]:
        """The payload in encrypted bytes.

        Raises:
            DecodeError: no key opens it, or it was changed.
        """
        codec, _, payload = self._ring.decrypt(stored).partition(b"\0")
        return codec.decode(), payload
