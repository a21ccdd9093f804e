"""What a scheduled job knows of its schedule; it travels among the headers of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from redisjobs.base.zones import find_zone
from redisjobs.errors import OptionError

HEADER = "redisjobs.schedule"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The occurrence of a schedule that a job was dispatched for.

    Args:
        schedule: the name of the schedule.
        at: when it was due, in UTC; of a triggered one, when that was asked for.
        local: the same moment on the clocks of the schedule's zone.
        catch_up: it stands for more than this occurrence, or came late by more than a period.
        first: with `run_once`, the first occurrence of the missed window; else `at`.
        count: how many occurrences it stands for; no more than 1000 are counted.
        triggered: somebody asked for it by hand.
    """

    schedule: str
    at: datetime
    local: datetime
    catch_up: bool = False
    first: datetime | None = None
    count: int = 1
    triggered: bool = False

    @property
    def last(self) -> datetime:
        """The last occurrence that it stands for."""
        return self.at


def written(
    schedule: str, zone: str, at: datetime, *, catch_up: bool = False, first: datetime | None = None, count: int = 1
) -> dict[str, Any]:
    """What the headers of a dispatch say under `HEADER`."""
    mark: dict[str, Any] = {"name": schedule, "zone": zone, "at": at.isoformat()}
    if catch_up:
        mark |= {"catch_up": True, "count": count}
    if first is not None and first != at:
        mark["first"] = first.isoformat()
    return mark


def read(headers: Mapping[str, Any]) -> Occurrence | None:
    """The occurrence that headers tell of; None: they tell of none, or of one that cannot be read."""
    if not isinstance(headers.get(HEADER), dict):
        return None
    mark = cast("dict[str, Any]", headers[HEADER])
    try:
        at = datetime.fromisoformat(mark["at"]).astimezone(UTC)
        first = datetime.fromisoformat(mark.get("first", mark["at"])).astimezone(UTC)
        local = at.astimezone(find_zone(mark["zone"]))
        return Occurrence(
            str(mark["name"]), at, local, bool(mark.get("catch_up")), first, int(mark.get("count", 1)),
            bool(mark.get("triggered")),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, OptionError):
        return None
