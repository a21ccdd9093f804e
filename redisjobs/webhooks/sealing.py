"""Secrets of stored endpoints, encrypted where a key was given."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence

from redisjobs.errors import ConfigurationError, DecodeError

VARIABLE = "REDISJOBS_WEBHOOK_KEYS"
_SEALED = "sealed:"


class Seal:
    """Seals values with the first key and opens with any; without keys what is written is readable.

    Args:
        keys: as `EncryptedCodec.generate_key()` makes them.

    Raises:
        ConfigurationError: one that is no key, or the library for it is not installed. No text shows it.
    """

    def __init__(self, keys: Sequence[bytes | str] = ()) -> None:
        self._ring = None
        if keys:
            try:
                from redisjobs.base.encryption import Ring  # noqa: PLC0415 - its library is an extra
            except ImportError:
                raise ConfigurationError(
                    f"{VARIABLE} needs the library cryptography: pip install 'redisjobs-pg[webhooks]'"
                ) from None
            self._ring = Ring(list(keys))

    @classmethod
    def of_environment(cls, environ: Mapping[str, str] = os.environ) -> Seal:
        """With the keys of REDISJOBS_WEBHOOK_KEYS, commas between them; there need be none."""
        return cls([key.strip() for key in environ.get(VARIABLE, "").split(",") if key.strip()])

    def close(self, value: str) -> str:
        """The value as it is stored."""
        if self._ring is None:
            return value
        return _SEALED + base64.b64encode(self._ring.encrypt(value.encode())).decode()

    def open(self, stored: str) -> str:
        """The value.

        Raises:
            DecodeError: it is sealed, and no key here opens it.
        """
        if not stored.startswith(_SEALED):
            return stored
        if self._ring is None:
            raise DecodeError(f"it is encrypted, and {VARIABLE} has no key here")
        try:
            return self._ring.decrypt(base64.b64decode(stored.removeprefix(_SEALED))).decode()
        except (DecodeError, binascii.Error, ValueError):
            raise DecodeError(f"it is encrypted, and no key of {VARIABLE} opens it") from None
