"""What goes in comes out, in value and type, whatever way the job takes (rules O2, O3, W3; cases C08, K01)."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from redisjobs import App, Context, EncryptedCodec, Job, Retry, Snooze
from tests.stories.road import Road
from tests.support.eventually import eventually


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True)
class Line:
    product: UUID
    price: Decimal
    colour: Colour = Colour.RED


PLAIN: dict[str, Any] = {
    "id": 130775545883393173, "a": [], "o": {}, "z": -0.0, "p": 1.10, "n": None, "t": True,
    "text": 'ü ☃ \U0001f600 "\\/',
    "ints": [2**53 + 1, 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**40, 0, -1], "floats": [1e300, 5e-324, 1.0, 0.1],
    "one": [{"": {"deep": [[]]}}],
}  # fmt: skip
RICH: dict[str, Any] = {
    **PLAIN, "bytes": b"\x00\xff", "at": datetime(2026, 8, 1, 12, 0, 0, 7, timezone(timedelta(hours=5, minutes=30))),
    "naive": datetime.fromisoformat("2026-08-01"), "day": date(2026, 2, 28), "money": Decimal("1.10"),
    "uuid": UUID(int=7),
}  # fmt: skip


def same(one: Any, other: Any) -> bool:
    """Equal in value and in type, all the way down; and -0.0 is not 0.0."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, datetime):
        return bool(one.utcoffset() == other.utcoffset())
    return True


def tourist(road: Road, app: App) -> Job[..., Any]:
    """A job that takes every way there is: it is retried, snoozed, dies and is redriven."""

    @app.job(max_attempts=2, retry=[0.05], result_ttl=60)
    async def tour(ctx: Context, value: Any) -> Any:
        road.seen.append(value)
        match len(road.seen):
            case 1:
                raise Snooze(0.05)
            case 2:
                raise Retry(after=0.05)
            case 3:
                raise RuntimeError("now it is a dead letter")
            case _:
                return value

    job: Job[..., Any] = tour
    return job


@pytest.mark.parametrize("value", [PLAIN, RICH], ids=["as JSON", "as msgpack"])
@pytest.mark.parametrize("codec", [None, EncryptedCodec([EncryptedCodec.generate_key()])], ids=["plain", "encrypted"])
async def test_values_are_the_same_at_every_start_and_in_the_result(
    road: Road, value: dict[str, Any], codec: EncryptedCodec | None
):
    app = road.another_app(codec=codec)
    tour = tourist(road, app)
    stranger = await road.work(road.another_app())  # it does not know the job, and parks it
    with road.connect() as connection:
        handle = tour.using(delay=0.05).enqueue(connection, value=value)
    await road.reaches("parked", handle)
    await stranger.stop(0)
    await road.work(app)
    await road.reaches("dead", handle)
    road.query("SELECT redisjobs.redrive(ARRAY[%(id)s]::uuid[])", id=handle.id)

    await road.reaches("done", handle)
    assert len(road.seen) == 4
    assert all(same(value, each) for each in road.seen), road.seen
    assert same(value, await handle.result(timeout=5))


async def test_an_annotation_says_what_is_built_from_the_values(road: Road):
    @road.app.job(result_ttl=60)
    async def reserve(line: Line, at: datetime, extra: dict[str, list[Line]]) -> Line:
        road.seen.append((line, at, extra))
        return line

    line = Line(UUID(int=1), Decimal("9.90"))
    at = datetime(2026, 8, 1, tzinfo=UTC)
    await road.work()
    with road.connect() as connection:
        handle = reserve.enqueue(connection, line=line, at=at, extra={"more": [line]})

    assert await handle.result(timeout=10) == line
    assert road.seen == [(line, at, {"more": [line]})]


async def test_rows_of_other_languages_bind_by_the_same_annotations(road: Road):
    @road.app.job
    async def reserve(line: Line, at: datetime) -> None:
        road.seen.append((line, at))

    await road.work()
    road.query(
        """SELECT redisjobs.enqueue('reserve', '{"line": {"product": "00000000-0000-0000-0000-000000000001",
                  "price": "9.90", "colour": "red"}, "at": "2026-08-01T00:00:00Z"}')"""
    )
    await eventually(lambda: road.seen, "it runs")
    assert road.seen == [(Line(UUID(int=1), Decimal("9.90")), datetime(2026, 8, 1, tzinfo=UTC))]


async def test_numbers_in_a_row_of_another_language_keep_every_digit(road: Road):
    @road.app.job
    async def note(value: Any) -> None:
        road.seen.append(value)

    await road.work()
    road.query(
        f"""SELECT redisjobs.enqueue('note', '{{"value": [130775545883393173, {10**40}, -0.0, 1.10, [], {{}}]}}')"""
    )
    await eventually(lambda: road.seen, "it runs")
    assert same(road.seen[0], [130775545883393173, 10**40, -0.0, 1.1, [], {}])


async def test_what_is_encrypted_is_read_by_nobody_without_the_key(road: Road):
    secret = "4111 1111 1111 1111"
    old, new = EncryptedCodec.generate_key(), EncryptedCodec.generate_key()
    rings: list[list[bytes | str]] = [[old], [new, old]]
    note: Callable[[App], Job[..., Any]] = lambda app: app.job(name="note", result_ttl=60)(noted)  # noqa: E731

    async def noted(card: str) -> str:
        road.seen.append(card)
        return card

    before, after = (road.another_app(codec=EncryptedCodec(keys)) for keys in rings)
    first = note(before)
    note(after)
    with road.connect() as connection:
        handle = first.enqueue(connection, card=secret)
    await road.reaches("published", handle)
    row = road.query("SELECT payload, codec, o::text FROM redisjobs.outbox o")
    assert row[0][1] == "encrypted"
    assert secret.encode() not in row[0][0]

    await road.work(after)  # after the rotation: the old key still opens
    await road.reaches("done", handle)
    assert road.seen == [secret]
    (kept,) = road.query("SELECT result, result_codec FROM redisjobs.finished")
    assert kept[1] == "encrypted"
    assert secret.encode() not in kept[0]
