"""The envelope: what of a job travels in Redis, as one msgpack value that no script looks into."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgpack

from redisjobs.base.durations import many
from redisjobs.errors import DecodeError

_NAMES = {
    "k": "idempotency_key",
    "p": "priority",
    "m": "max_attempts",
    "r": "run_at",
    "e": "expires_at",
    "t": "tenant_id",
    "c": "traceparent",
    "b": "enqueued_by",
    "h": "headers",
    "s": "staged_at",
    "w": "key_window",
    "v": "version",
    "f": "has_parent",
    "u": "is_ending",
    "l": "lane",
    "y": "share_key",
    "o": "key_policy",
    "i": "key_wait",
    "x": "key_longest",
}


@dataclass(slots=True)  # a frozen one takes three times as long to make, and each job is one
class Envelope:
    """One job as a worker reads it. Moments are microseconds since 1970, `key_window` is in seconds.

    Args:
        codec: how `payload` is to be read: json, msgpack, or the name of a registered codec.
        max_attempts: None: the job's definition decides.
        headers: what the producer put beside the arguments, as the JSON text that it wrote.
        version: only workers that know this version of the job run it.
        has_parent: another run waits for its end.
        is_ending: of this run only the undos are left to be run.
        lane, share_key, key_policy, key_wait, key_longest: as in the row, in seconds; a job without one
            takes them into its dead letter.
    """

    job: str
    codec: str
    payload: bytes = field(repr=False)
    idempotency_key: str | None = None
    priority: int = 0
    max_attempts: int | None = None
    run_at: int | None = None
    expires_at: int | None = None
    tenant_id: str | None = None
    traceparent: str | None = None
    enqueued_by: str | None = None
    headers: str | None = field(default=None, repr=False)
    staged_at: int | None = None
    key_window: float | None = None
    version: str | None = None
    has_parent: bool = False
    is_ending: bool = False
    lane: str | None = None
    share_key: str | None = None
    key_policy: str | None = None
    key_wait: float | None = None
    key_longest: float | None = None

    def pack(self) -> bytes:
        """The bytes for the `jobs` hash; what is at its default is left out."""
        extras = {key: value for key, value in self._extras() if value is not None}
        packed: bytes = msgpack.packb([self.job, self.codec, self.payload, extras])
        return packed

    def _extras(self) -> tuple[tuple[str, object], ...]:
        return (
            ("k", self.idempotency_key), ("p", self.priority or None), ("m", self.max_attempts), ("r", self.run_at),
            ("e", self.expires_at), ("t", self.tenant_id), ("c", self.traceparent), ("b", self.enqueued_by),
            ("h", self.headers), ("s", self.staged_at), ("w", self.key_window),
            ("v", self.version), ("f", self.has_parent or None), ("u", self.is_ending or None),
            ("l", self.lane), ("y", self.share_key), ("o", self.key_policy), ("i", self.key_wait),
            ("x", self.key_longest),
        )  # fmt: skip

    @classmethod
    def unpack(cls, packed: bytes) -> Envelope:
        """The envelope in `packed`.

        Raises:
            DecodeError: it is none; its text says what is wrong and shows nothing of the content.
        """
        try:
            job, codec, payload, extras = msgpack.unpackb(packed)
            envelope = cls(job, codec, payload)
            for key in extras:
                if key in _NAMES:
                    setattr(envelope, _NAMES[key], extras[key])
        except Exception as error:  # noqa: BLE001  # whatever these bytes make msgpack raise
            raise DecodeError(f"this is no envelope ({type(error).__name__}, {many(len(packed), 'byte')})") from None
        if type(job) is not str or type(codec) is not str or type(payload) is not bytes or type(extras) is not dict:
            raise DecodeError("this is no envelope: it must be a job and a codec as text, payload bytes, and a map")
        return envelope
