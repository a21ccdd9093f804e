"""Signing secrets as Standard Webhooks writes them: `whsec_` for HMAC, `whsk_` and `whpk_` for ed25519."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from redisjobs.errors import ConfigurationError, OptionError

HMAC: Final = "whsec_"
PRIVATE: Final = "whsk_"
PUBLIC: Final = "whpk_"
SEED_BYTES, PAIR_BYTES = 32, 64
LEAST_BYTES, MOST_BYTES = 24, 64
"""Of an HMAC secret, as the specification has it."""
MOST_SECRETS = 10
"""Of one endpoint: each is a signature in a header."""

Kind = Literal["whsec_", "whsk_", "whpk_"]
Judge: TypeAlias = Callable[[str, bytes], bool]


@dataclass(frozen=True, slots=True)
class Key:
    """A secret that was read.

    Args:
        raw: of `whsec_` the secret, of the other two the 32 bytes of the private seed or the public key.
    """

    kind: Kind
    raw: bytes = field(repr=False)

    def sign(self, content: bytes) -> str:
        """The signature of this content, as it stands in the header."""
        if self.kind == HMAC:
            return f"v1,{_text(hmac.digest(self.raw, content, hashlib.sha256))}"
        return f"v1a,{_text(_private(self.raw).sign(content))}"

    def judge(self, content: bytes) -> Judge:
        """What says of a version and a signature, base64 as bytes, whether they are of this content; never raises."""
        if self.kind == HMAC:
            expected = self.sign(content).removeprefix("v1,").encode()
            return lambda version, signature: version == "v1" and hmac.compare_digest(expected, signature)
        public = _ed25519().Ed25519PublicKey.from_public_bytes(self._public())
        return lambda version, signature: version == "v1a" and _is_signed(public, signature, content)

    @property
    def public(self) -> str | None:
        """The `whpk_` text that receivers are given; None: HMAC has none."""
        return None if self.kind == HMAC else PUBLIC + _text(self._public())

    def _public(self) -> bytes:
        return self.raw if self.kind == PUBLIC else cast(bytes, _private(self.raw).public_key().public_bytes_raw())


def signing_keys(secrets: str | Sequence[str], name: str = "secrets") -> tuple[Key, ...]:
    """What an endpoint signs with: at least one secret, each `whsec_…` or `whsk_…`.

    Raises:
        OptionError: one that cannot be used. No text shows a part of it.
        ConfigurationError: a key of ed25519, and the library for it is not installed.
    """
    keys = _keys(secrets, name)
    for at, key in enumerate(keys):
        if key.kind == PUBLIC:
            why = "is a public key, which receivers are given and nobody can sign with: pass the whsk_ it belongs to"
            raise OptionError(f"{name}[{at}]", _hidden(PUBLIC), why)
    return keys


def verifying_keys(secrets: str | Sequence[str], name: str = "secrets") -> tuple[Key, ...]:
    """What a receiver verifies with: each `whsec_…` or `whpk_…`.

    Raises:
        OptionError, ConfigurationError: as `signing_keys`.
    """
    return _keys(secrets, name)


def generate_secret(kind: Literal["hmac", "ed25519"] = "hmac") -> str:
    """A new secret: `whsec_…`, or for ed25519 `whsk_…`.

    Raises:
        OptionError: another kind.
        ConfigurationError: the library for ed25519 is not installed.
    """
    if kind == "hmac":
        return HMAC + _text(os.urandom(32))
    if kind == "ed25519":
        seed = os.urandom(SEED_BYTES)
        return PRIVATE + _text(seed + _private(seed).public_key().public_bytes_raw())
    raise OptionError("kind", kind, "is unknown: pass 'hmac' or 'ed25519'")


def public_key(secret: str) -> str:
    """The `whpk_…` of a `whsk_…`, for receivers.

    Raises:
        OptionError: it is no secret, or one that has no public part.
    """
    key = _key("secret", secret)
    if key.public is None:
        raise OptionError("secret", _hidden(HMAC), "has no public part: HMAC has one secret for both sides")
    return key.public


def _keys(secrets: object, name: str) -> tuple[Key, ...]:
    listed = [secrets] if isinstance(secrets, str) else secrets
    if not isinstance(listed, (list, tuple)) or not listed:
        why = "is no list of secrets: pass one at least, such as generate_secret() answers"
        raise OptionError(name, type(secrets).__name__, why)
    found = cast("Sequence[object]", listed)
    if len(found) > MOST_SECRETS:
        raise OptionError(name, f"{len(found)} secrets", f"are too many for one header: pass {MOST_SECRETS} at most")
    return tuple(_key(name if len(found) == 1 else f"{name}[{at}]", each) for at, each in enumerate(found))


def _key(name: str, text: object) -> Key:
    if not isinstance(text, str):
        raise OptionError(name, type(text).__name__, "is no text: pass whsec_… or whsk_…")
    kind = next((each for each in (HMAC, PRIVATE, PUBLIC) if text.startswith(each)), None)
    if kind is None:
        told = next((each for each in (HMAC, PRIVATE, PUBLIC) if each in text), None)
        why = f"leave out what stands before {told}" if told else "pass whsec_ and base64, as generate_secret() answers"
        raise OptionError(name, _hidden(), f"begins with none of whsec_, whsk_ and whpk_: {why}")
    raw = _raw(text[len(kind) :])
    if kind == HMAC:
        if raw is None or not LEAST_BYTES <= len(raw) <= MOST_BYTES:
            why = f"is not {LEAST_BYTES} to {MOST_BYTES} bytes in base64: pass a secret of generate_secret()"
            raise OptionError(name, _hidden(kind), why)
        return Key(HMAC, raw)
    if kind == PRIVATE and raw is not None and len(raw) == PAIR_BYTES:
        seed, raw = raw, raw[:SEED_BYTES]
        if _private(raw).public_key().public_bytes_raw() != seed[SEED_BYTES:]:
            raise OptionError(name, _hidden(kind), "has a public half that is another key's: copy it whole")
    if raw is None or len(raw) != SEED_BYTES:
        raise OptionError(name, _hidden(kind), "is no key of ed25519 in base64: copy it whole")
    return Key(PRIVATE if kind == PRIVATE else PUBLIC, raw)


def _hidden(prefix: str = "") -> str:
    return f"{prefix}…"


def _raw(text: str) -> bytes | None:
    try:
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _private(seed: bytes) -> Any:
    return _ed25519().Ed25519PrivateKey.from_private_bytes(seed)


def _is_signed(public: Any, signature: bytes, content: bytes) -> bool:
    try:
        public.verify(base64.b64decode(signature, validate=True), content)
    except Exception:  # noqa: BLE001 - whatever the bytes of a stranger make the library raise, they are no signature
        return False
    return True


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - its library is an extra
    except ImportError:
        raise ConfigurationError(
            "whsk_ and whpk_ need the library cryptography: pip install 'redisjobs-pg[webhooks]'"
        ) from None
    return ed25519
