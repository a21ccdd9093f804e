"""What is signed here is verified by others, and what others sent is judged without ever raising."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from redisjobs import OptionError
from redisjobs.webhooks import generate_secret, public_key, verify
from redisjobs.webhooks.keys import signing_keys
from redisjobs.webhooks.signing import signed_headers

HMAC, OTHER, ED25519 = generate_secret(), generate_secret(), generate_secret("ed25519")
BODY = '{"type":"a.b","data":{"name":"Zoë"}}'.encode()
ID = "0198c5b2-7d4e-7c1a-9f0e-2b6a5d8c1e3f"


def headers(*secrets: str, body: bytes = BODY, at: float | None = None) -> dict[str, str]:
    return signed_headers(signing_keys(list(secrets)), ID, int(time.time() if at is None else at), body)


def test_the_public_package_verifies_what_is_sent():
    """H1."""
    assert Webhook(HMAC).verify(BODY, headers(HMAC)) == {"type": "a.b", "data": {"name": "Zoë"}}


def test_with_several_secrets_a_receiver_may_have_either():
    """L03: while a secret is rotated, and beside a key of ed25519."""
    sent = headers(HMAC, OTHER, ED25519)

    for secret in (HMAC, OTHER):
        assert Webhook(secret).verify(BODY, sent)
        assert verify(BODY, sent, secret)
    assert verify(BODY, sent, public_key(ED25519))
    assert sent["webhook-signature"].count(" ") == 2


def test_the_signature_of_the_specification_s_example_is_the_same():
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    theirs = Webhook(secret).sign(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", datetime.fromtimestamp(1614265330, UTC), '{"test": 2432232314}'
    )

    ours = signed_headers(signing_keys(secret), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert ours["webhook-signature"] == theirs == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_what_the_public_package_signs_is_verified():
    now = datetime.now(UTC)
    signature = Webhook(HMAC).sign(ID, now, BODY.decode())
    theirs = {"Webhook-Id": ID, "WEBHOOK-TIMESTAMP": str(int(now.timestamp())), "webhook-Signature": signature}

    assert verify(BODY, theirs, [OTHER, HMAC])
    assert verify(BODY.decode(), theirs, HMAC)
    assert verify(BODY, {name.encode(): value.encode() for name, value in theirs.items()}, HMAC)  # type: ignore[misc]


@pytest.mark.parametrize("part", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_header_that_is_missing_or_changed_rejects(part: str):
    sent = headers(HMAC, ED25519)

    assert not verify(BODY, {name: value for name, value in sent.items() if name != part}, HMAC)
    assert not verify(BODY, sent | {part: f"{sent[part]}1" if part != "webhook-signature" else "v1,AAAA"}, HMAC)


def test_another_body_or_another_secret_rejects():
    sent = headers(HMAC, ED25519)

    assert not verify(BODY + b" ", sent, HMAC)
    assert not verify(BODY, sent, OTHER)
    assert not verify(BODY, sent, public_key(generate_secret("ed25519")))


def test_a_signature_of_one_version_is_not_accepted_as_another():
    sent = headers(HMAC)

    assert not verify(BODY, sent | {"webhook-signature": sent["webhook-signature"].replace("v1,", "v1a,")}, HMAC)
    assert not verify(BODY, sent | {"webhook-signature": sent["webhook-signature"].replace("v1,", "v2,")}, HMAC)


@pytest.mark.parametrize(("shift", "accepted"), [(-301, False), (-299, True), (0, True), (299, True), (301, False)])
def test_a_timestamp_is_good_for_five_minutes_before_and_behind(shift: int, accepted: bool):
    sent = headers(HMAC, at=1_700_000_000)

    assert verify(BODY, sent, HMAC, now=1_700_000_000 + shift) is accepted


def test_the_tolerance_can_be_chosen_and_is_checked():
    sent = headers(HMAC, at=1_700_000_000)

    assert verify(BODY, sent, HMAC, now=1_700_003_000, tolerance=timedelta(hours=1))
    with pytest.raises(OptionError, match="tolerance"):
        verify(BODY, sent, HMAC, tolerance=-1)


ODD = [
    "v1,é",
    "v1,\udc7f",
    "v1a,é",
    "v1",
    "v1,",
    ",",
    "",
    " ",
    "v1,v1,v1",
    "v1a,AAAA",
    "v1a," + base64.b64encode(b"x" * 64).decode(),
    "v1,\x00",
    "v1," + "A" * 100_000,
    " ".join(["v1,AAAA"] * 10_000),
    b"v1,\xe9",
    None,
    7,
    ["v1,AAAA"],
]


@pytest.mark.parametrize("signature", ODD)
@pytest.mark.parametrize("secret", [HMAC, public_key(ED25519)], ids=["hmac", "public key"])
def test_an_odd_signature_rejects_and_does_not_raise(signature: Any, secret: str):
    """L05: a comparison that takes no text beyond ASCII raised there."""
    assert verify(BODY, headers(HMAC, ED25519) | {"webhook-signature": signature}, secret) is False


@pytest.mark.parametrize(
    "stamp", ["", "x", "-1", "1e9", "1.5", "nan", "inf", "٣٣", "²", "9" * 5000, "9" * 13, " 1", "1\n", None, 1, "0x10"]
)
def test_an_odd_timestamp_rejects_and_does_not_raise(stamp: Any):
    assert verify(BODY, headers(HMAC) | {"webhook-timestamp": stamp}, HMAC) is False


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.binary(), st.none())), st.binary(), st.text(), st.text())
def test_whatever_a_stranger_sends_is_rejected_and_never_raises(
    others: dict[str, Any], body: bytes, message_id: str, signature: str
):
    sent = others | {"webhook-id": message_id, "webhook-timestamp": "1000", "webhook-signature": signature}

    assert verify(body, sent, [HMAC, public_key(ED25519)], now=1000) is False


def test_a_body_as_text_with_a_lone_surrogate_rejects():
    assert verify("\udc7f", headers(HMAC), HMAC) is False


def test_the_receiver_s_own_secret_is_checked():
    with pytest.raises(OptionError, match="begins with none of"):
        verify(BODY, headers(HMAC), f"v1,{HMAC}")


def test_the_public_package_refuses_what_was_changed():
    with pytest.raises(WebhookVerificationError):
        Webhook(HMAC).verify(BODY + b" ", headers(HMAC))
