"""The rules of the outbox table, under the names that Postgres gives when a row breaks one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime

from psycopg import errors

from redisjobs.errors import EnqueueError
from redisjobs.testing.outbox.tables import Row

_MIB = 1_048_576
_YEAR_SECONDS = 366 * 86_400
_CODEC = re.compile(r"[a-z0-9_.-]{1,40}\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_QUEUE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}\Z")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z")
_FIRST, _LAST = datetime(2, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)

Rule = Callable[[Row], bool]
RULES: dict[str, Rule] = {
    "codec_goes_with_payload": lambda row: (row.codec is None) == (row.payload is None),
    "codec_is_a_name": lambda row: row.codec is None or bool(_CODEC.match(row.codec)),
    "enqueued_by_at_most_200_characters": lambda row: len(row.enqueued_by or "") <= 200,
    "expires_at_is_a_time": lambda row: row.expires_at is None or _FIRST <= row.expires_at < _LAST,
    "headers_are_an_object": lambda row: row.headers is None or isinstance(_json(row.headers), dict),
    "headers_at_most_16_kib": lambda row: len((row.headers or "").encode()) <= 16_384,
    "idempotency_key_1_to_512_bytes": lambda row: (
        row.idempotency_key is None or 1 <= len(row.idempotency_key.encode()) <= 512
    ),
    "input_at_most_1_mib": lambda row: len((row.input or "").encode()) <= _MIB,
    "input_is_object_or_array": lambda row: row.input is None or isinstance(_json(row.input), (dict, list)),
    "input_or_payload": lambda row: (row.input is None) != (row.payload is None),
    "job_is_a_name": lambda row: len(row.job) <= 200 and bool(row.job.strip()) and not _CONTROL.search(row.job),
    "key_longest_is_a_wait": lambda row: (
        row.key_longest is None or (row.key_wait is not None and row.key_wait <= row.key_longest <= _YEAR_SECONDS)
    ),
    "key_policy_goes_with_key": lambda row: row.key_policy is None or row.idempotency_key is not None,
    "key_policy_is_known": lambda row: row.key_policy in (None, "skip", "throttle", "debounce", "replace"),
    "key_wait_goes_with_debounce": lambda row: (
        (row.key_wait is not None and 0 <= row.key_wait <= _YEAR_SECONDS)
        if row.key_policy == "debounce"
        else row.key_wait is None
    ),
    "key_window_0_to_366_days": lambda row: row.key_window is None or 0 <= row.key_window <= _YEAR_SECONDS,
    "key_window_fits_the_policy": lambda row: (
        row.key_policy in (None, "skip")
        or (
            row.key_window is not None and row.key_window > 0
            if row.key_policy == "throttle"
            else row.key_window is None
        )
    ),
    "key_window_goes_with_key": lambda row: row.key_window is None or row.idempotency_key is not None,
    "lane_1_to_200_characters": lambda row: row.lane is None or 1 <= len(row.lane) <= 200,
    "max_attempts_1_to_1000": lambda row: row.max_attempts is None or 1 <= row.max_attempts <= 1000,
    "payload_at_most_1_mib": lambda row: len(row.payload or b"") <= _MIB,
    "priority_within_100": lambda row: -100 <= row.priority <= 100,
    "queue_is_a_name": lambda row: bool(_QUEUE.match(row.queue)),
    "result_ttl_0_to_366_days": lambda row: row.result_ttl is None or 0 <= row.result_ttl <= _YEAR_SECONDS,
    "run_at_is_a_time": lambda row: row.run_at is None or _FIRST <= row.run_at < _LAST,
    "share_key_1_to_200_characters": lambda row: row.share_key is None or 1 <= len(row.share_key) <= 200,
    "tenant_id_1_to_200_characters": lambda row: row.tenant_id is None or 1 <= len(row.tenant_id) <= 200,
    "traceparent_is_w3c": lambda row: row.traceparent is None or bool(_TRACEPARENT.match(row.traceparent)),
    "version_1_to_100_characters": lambda row: row.version is None or 1 <= len(row.version) <= 100,
}
"""Postgres looks at them in the order of their names, and so does `check`."""


def check(row: Row) -> None:
    """Refuse what the table refuses.

    Raises:
        EnqueueError: the row breaks a rule.
        psycopg.DataError: `input` or `headers` is no JSON.
    """
    for name, holds in RULES.items():
        if not holds(row):
            raise EnqueueError(f"the outbox refuses the row by its rule {name}")


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise errors.InvalidTextRepresentation(f"invalid input syntax for type json: {error}") from None
