"""A ring of keys: the first encrypts, each decrypts."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from redisjobs.errors import ConfigurationError, DecodeError

_VERSION = b"\x01"
_NONCE_BYTES = 12
_MARK_BYTES = 4  # of the key's digest: which key a value was encrypted with, not which value
_HEAD_BYTES = len(_VERSION) + _MARK_BYTES + _NONCE_BYTES


class Ring:
    """Keys for AES-GCM. What it stores: version, mark of the key, nonce, ciphertext with its tag."""

    def __init__(self, keys: Sequence[bytes | str]) -> None:
        if isinstance(keys, (str, bytes)) or not keys:
            raise ConfigurationError("EncryptedCodec needs a list of keys: pass [EncryptedCodec.generate_key()]")
        raw = [_raw(key, index) for index, key in enumerate(keys)]
        self._keys = [(sha256(key).digest()[:_MARK_BYTES], AESGCM(key)) for key in raw]

    def encrypt(self, plain: bytes) -> bytes:
        """`plain`, encrypted with the first key."""
        mark, key = self._keys[0]
        nonce = os.urandom(_NONCE_BYTES)
        head = _VERSION + mark
        return head + nonce + key.encrypt(nonce, plain, head)

    def decrypt(self, stored: bytes) -> bytes:
        """What was encrypted.

        Raises:
            DecodeError: no key here opens it, or it was changed.
        """
        head, nonce, sealed = stored[:5], stored[5:_HEAD_BYTES], stored[_HEAD_BYTES:]
        if head[:1] == _VERSION and len(sealed) >= 16:
            for mark, key in self._keys:
                if mark == head[1:]:
                    try:
                        return key.decrypt(nonce, sealed, head)
                    except InvalidTag:
                        continue
        raise DecodeError(f"the payload is encrypted, and no key given here opens it ({len(self._keys)} tried)")


def generate_key() -> str:
    """A new key of 32 bytes, as urlsafe base64 text."""
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


def _raw(key: bytes | str, index: int) -> bytes:
    try:
        raw = base64.urlsafe_b64decode(key) if isinstance(key, str) else bytes(key)
    except (binascii.Error, ValueError, TypeError):
        raw = b""
    if len(raw) not in (16, 24, 32):
        raise ConfigurationError(f"keys[{index}] is no key: pass 32 bytes, or a text of EncryptedCodec.generate_key()")
    return raw
