"""Secrets are checked where they are configured, and never shown."""

from __future__ import annotations

import base64

import pytest

from redisjobs import OptionError
from redisjobs.webhooks.keys import generate_secret, public_key, signing_keys, verifying_keys

HMAC = generate_secret()
PRIVATE = generate_secret("ed25519")


def encoded(size: int) -> str:
    return base64.b64encode(b"s" * size).decode()


def test_a_secret_with_a_scheme_before_it_is_refused_when_configured():
    """L01: pasted from a signature's header, every signature would be wrong."""
    assert signing_keys(HMAC)

    with pytest.raises(OptionError, match="leave out what stands before whsec_"):
        signing_keys(f"v1,{HMAC}")


@pytest.mark.parametrize(
    "secret",
    [
        encoded(32),
        "",
        "whsec_",
        "whsec_%%%",
        "whsec_é",
        f"WHSEC_{encoded(32)}",
        f"whsec_{encoded(23)}",
        f"whsec_{encoded(65)}",
        f" whsec_{encoded(32)}",
        f"whsec_{encoded(32)}\n",
        f"whsk_{encoded(31)}",
        f"whsk_{encoded(64)}",
        pytest.param(public_key(PRIVATE), id="a public key"),
        None,
        b"whsec_",
        7,
    ],
)
def test_what_is_no_secret_to_sign_with_is_refused_and_not_shown(secret: str):
    with pytest.raises(OptionError) as refused:
        signing_keys([secret])

    assert encoded(31)[:20] not in str(refused.value)
    assert encoded(32)[:20] not in str(refused.value)


@pytest.mark.parametrize("size", [24, 25, 32, 63, 64])
@pytest.mark.parametrize("padded", [True, False])
def test_a_secret_has_24_to_64_bytes_with_or_without_padding(size: int, padded: bool):
    text = encoded(size)

    (key,) = signing_keys(f"whsec_{text if padded else text.rstrip('=')}")

    assert key.raw == b"s" * size


def test_a_key_is_not_shown_by_its_repr():
    (key,) = signing_keys(HMAC)

    assert HMAC[6:20] not in repr(key)
    assert str(key.raw) not in repr(key)


def test_a_private_key_of_ed25519_may_be_its_seed_alone_or_the_pair():
    pair = base64.b64decode(PRIVATE.removeprefix("whsk_"))
    seed = f"whsk_{base64.b64encode(pair[:32]).decode()}"

    assert signing_keys(seed) == signing_keys(PRIVATE)
    assert public_key(seed) == public_key(PRIVATE) == f"whpk_{base64.b64encode(pair[32:]).decode()}"


def test_hmac_has_no_public_key():
    with pytest.raises(OptionError, match="no public part"):
        public_key(HMAC)


@pytest.mark.parametrize("secrets", [[], (), None, {"a": 1}, [HMAC] * 11])
def test_an_endpoint_has_one_to_ten_secrets(secrets: object):
    with pytest.raises(OptionError):
        signing_keys(secrets)  # type: ignore[arg-type]


def test_a_receiver_may_hold_a_public_key():
    assert verifying_keys([HMAC, public_key(PRIVATE)])


def test_an_unknown_kind_of_secret_is_not_generated():
    with pytest.raises(OptionError, match="pass 'hmac' or 'ed25519'"):
        generate_secret("rsa")  # type: ignore[arg-type]
