"""What travels in Redis is small, and what is no envelope is told without showing it."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redisjobs.base.envelope import Envelope
from redisjobs.errors import DecodeError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
MICROS = st.none() | st.integers(-(2**62), 2**62)


@given(
    st.builds(
        Envelope,
        job=TEXT,
        codec=TEXT,
        payload=st.binary(max_size=50),
        idempotency_key=st.none() | TEXT,
        priority=st.integers(-100, 100),
        max_attempts=st.none() | st.integers(1, 1000),
        run_at=MICROS,
        expires_at=MICROS,
        tenant_id=st.none() | TEXT,
        traceparent=st.none() | TEXT,
        enqueued_by=st.none() | TEXT,
        headers=st.none() | TEXT,
        staged_at=MICROS,
        key_window=st.none() | st.floats(0, 1e9),
        version=st.none() | TEXT,
        has_parent=st.booleans(),
        is_ending=st.booleans(),
    )
)
def test_what_is_packed_comes_out(envelope: Envelope):
    back = Envelope.unpack(envelope.pack())

    assert back == envelope


def test_what_is_at_its_default_takes_no_room():
    assert msgpack.unpackb(Envelope("mail", "json", b"{}").pack()) == ["mail", "json", b"{}", {}]
    assert len(Envelope("mail", "json", b"{}").pack()) == 16


def test_a_key_of_a_newer_release_is_passed_over():
    assert Envelope.unpack(msgpack.packb(["mail", "json", b"{}", {"t": "x", "zz": 1}])).tenant_id == "x"


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"secret",
        b"\x80\x04\x95secret",
        msgpack.packb("secret"),
        msgpack.packb(["secret", "json", "text", {}]),
        msgpack.packb([1, "json", b"", {}]),
        msgpack.packb(["mail", None, b"", {}]),
        msgpack.packb(["mail", "json", b"", ["secret"]]),
        msgpack.packb(["mail", "json", b""]),
        msgpack.packb(["mail", "json", b"", {}]) + b"secret",
    ],
)
def test_what_is_none_is_refused_and_not_shown(packed: bytes):
    with pytest.raises(DecodeError, match="this is no envelope") as refused:
        Envelope.unpack(packed)

    assert "secret" not in str(refused.value)


def test_its_repr_shows_no_payload():
    assert "secret" not in repr(Envelope("mail", "json", b"secret", headers="secret"))
