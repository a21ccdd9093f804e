"""The one table of statuses, and what is kept of an answer."""

from __future__ import annotations

import pytest

from redisjobs.webhooks.answers import KEPT_BYTES, SHOWN_CHARS, Answer, Verdict

RETRIED = {408, 409, 425, 429, *range(500, 600)}


@pytest.mark.parametrize("status", range(100, 600))
def test_each_status_has_its_verdict(status: int):
    """H2."""
    expected = Verdict.REFUSED
    if 200 <= status <= 299:
        expected = Verdict.DELIVERED
    elif status in RETRIED:
        expected = Verdict.RETRY
    elif status == 410:
        expected = Verdict.GONE

    assert Answer(status).verdict is expected


@pytest.mark.parametrize("status", [0, 99, 600, 999])
def test_a_status_that_there_is_not_is_a_refusal(status: int):
    assert Answer(status).verdict is Verdict.REFUSED


def test_a_kept_answer_is_short_and_shows_no_signature_secret_or_credential():
    """H6: a receiver that repeats what it was sent gives none of it away."""
    body = (
        b"got v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= and whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw and Bearer abc"
    )

    kept = Answer(500, body=body + b"\x00\xff" + b"x" * KEPT_BYTES).excerpt(["Bearer abc"])

    assert kept.startswith("got *** and *** and ***\\x00\\xff")
    assert len(kept) <= SHOWN_CHARS


def test_the_repr_of_an_answer_shows_neither_headers_nor_body():
    assert "secret" not in repr(Answer(500, {"set-cookie": "secret"}, b"secret"))
