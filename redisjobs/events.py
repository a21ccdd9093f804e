"""Events: what runs wait for, sent in the transaction of the sender. Each is taken once, by one wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from redisjobs.base import statements
from redisjobs.base.annotations import shape_of
from redisjobs.base.codec import JSON, Codecs
from redisjobs.base.durations import Duration, positive
from redisjobs.base.plain import Refusal
from redisjobs.drivers import Statement
from redisjobs.errors import OptionError
from redisjobs.steps.checks import check_key, check_name

statements.load("events").require("send", "send_many")

KEPT_S = 7 * 86_400.0
"""For how long an event waits for its run, unless the sender says otherwise."""
LONGEST_S = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to be sent.

    Args:
        name: 1 to 200 characters. key: which one is meant, such as an order's number; at most 512 bytes.
        data: what the run gets with it: plain data, or an instance of a dataclass, an enum or a pydantic model, which
            the run gets back by `of=`. As an argument it travels as JSON, or as msgpack where that is exact.
        expires_in: seconds or a timedelta, at most 366 days, for which it waits to be taken.

    Raises:
        OptionError: one of these is out of its range.
    """

    name: str
    key: str = ""
    data: Any = field(default=None, repr=False)
    expires_in: Duration = KEPT_S

    def __post_init__(self) -> None:
        check_name(self.name)
        check_key(self.key)
        positive("expires_in", self.expires_in, most=LONGEST_S)

    def columns(self, codecs: Codecs) -> dict[str, Any]:
        """The columns of its row.

        Raises:
            EncodeError: its data cannot travel.
        """
        codec, payload = (None, None) if self.data is None else codecs.encode(_plain(self.data), "data")
        is_json = codec == JSON and payload is not None
        return {
            "name": self.name,
            "key": self.key,
            "input": payload.decode() if is_json and payload is not None else None,
            "payload": None if is_json else payload,
            "codec": None if is_json else codec,
            "expires_in": positive("expires_in", self.expires_in, most=LONGEST_S),
        }


def _plain(data: Any) -> Any:
    """As plain data; an instance of a class that could be the annotation of an argument as that class writes it."""
    try:
        return shape_of(type(data)).write(data)
    except Refusal as refusal:
        raise refusal.as_error("data") from None


def check_events(events: Iterable[object]) -> list[NewEvent]:
    """The events in what a caller passed.

    Raises:
        OptionError: one is none.
    """
    checked: list[NewEvent] = []
    for event in events:
        if not isinstance(event, NewEvent):
            raise OptionError("events", type(event).__name__, "is no event: pass NewEvent(name, key, data) for each")
        checked.append(event)
    return checked


def send(events: Sequence[NewEvent], codecs: Codecs, schema: str = statements.SCHEMA) -> Statement:
    """One statement that sends these events, one at least. It answers nothing: its sender needs no right but INSERT."""
    sql = statements.load("events", schema)
    rows = [event.columns(codecs) for event in events]
    if len(rows) == 1:
        return sql.send, rows[0]
    return sql.send_many, {column: [row[column] for row in rows] for column in rows[0]}
