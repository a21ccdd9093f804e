"""The schedules of an app: those that its code declares, and the door to those that are made at run time."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypedDict, TypeVar, Unpack, cast, overload
from uuid import UUID

from redisjobs import drivers
from redisjobs.base import connections, statements
from redisjobs.base.codec import JSON
from redisjobs.base.durations import Duration
from redisjobs.call import Call
from redisjobs.drivers import Statement
from redisjobs.errors import ConfigurationError, OptionError
from redisjobs.timing import CatchUp, Overlap, Timing

statements.load("schedules").require("create", "pause", "unschedule", "trigger")

R = TypeVar("R")

HEADERS_BYTES = 14_336
_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,200}\Z")


class TimingOptions(TypedDict, total=False):
    """What may be said of a schedule beside its cron expression; `Timing` says what each means."""

    every: Duration | None
    zone: str
    starts_at: datetime | None
    ends_at: datetime | None
    jitter: Duration
    catch_up: CatchUp
    max_catch_up: int
    misfire_grace: Duration | None
    overlap: Overlap


@dataclass(frozen=True, slots=True)
class Schedule:
    """A call that is made again and again.

    Args:
        name: unlike that of any other schedule in the database.
        call: what is asked for; its queue, priority, max_attempts, expires, tenant, headers, lane, share and policy go
            along.
        enabled: None: a new one is, and one that is known keeps its pause.

    Raises:
        OptionError: a name that is none, or an option of the call that a schedule cannot have.
    """

    name: str
    call: Call[Any] = field(repr=False)
    timing: Timing
    enabled: bool | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        call = self.call
        for option, value in (
            ("run_at", call.run_at),
            ("delay", call.delay),
            ("idempotency_key", call.idempotency_key if call.key_policy is None else None),
        ):
            if value is not None:
                why = "is decided by the schedule for each occurrence: leave it out of using(…)"
                raise OptionError(option, value, why)
        if call.expires_at is not None:
            raise OptionError("expires", call.expires_at, "is one moment for all occurrences: pass a duration")
        if call.headers is not None and len(call.headers.encode()) > HEADERS_BYTES:
            raise OptionError("headers", "", f"of a schedule have more than {HEADERS_BYTES} bytes: pass fewer")


class Schedules:
    """The schedules of one app.

    Args:
        owner: the app's name, under which what its code declares is known in the database.
        schema: tells the Postgres schema of the tables.
    """

    def __init__(self, owner: str, schema: Callable[[], str]) -> None:
        self.owner = owner
        self._schema = schema
        self._declared: dict[str, Schedule] = {}

    @property
    def declared(self) -> Mapping[str, Schedule]:
        """What the code declares, by name."""
        return MappingProxyType(self._declared)

    def declare(self, schedule: Schedule) -> Schedule:
        """Have schedulers of this app keep it as it is here.

        Raises:
            ConfigurationError: another one has its name.
        """
        known = self._declared.get(schedule.name)
        if known is not None and (known.call.job, known.timing) != (schedule.call.job, schedule.timing):
            raise ConfigurationError(
                f"two schedules are named {schedule.name!r}, of the jobs {known.call.job} and {schedule.call.job}: "
                "give one of them name=…"
            )
        self._declared[schedule.name] = schedule
        return schedule

    @overload
    def create(
        self, connection: connections.Sync, name: str, call: Call[Any], cron: str | None = None, /,
        *, enabled: bool | None = None, **options: Unpack[TimingOptions],
    ) -> bool: ...  # fmt: skip
    @overload
    def create(
        self, connection: connections.Async, name: str, call: Call[Any], cron: str | None = None, /,
        *, enabled: bool | None = None, **options: Unpack[TimingOptions],
    ) -> Awaitable[bool]: ...  # fmt: skip
    def create(
        self, connection: connections.Sync | connections.Async, name: str, call: Call[Any], cron: str | None = None, /,
        *, enabled: bool | None = None, **options: Unpack[TimingOptions],
    ) -> bool | Awaitable[bool]:  # fmt: skip
        """Make a schedule, or change the one of this name, in the caller's transaction. Answers whether it changed.

        A schedule that is due by something else now begins anew: nothing is dispatched for the past.

        Raises:
            OptionError: an option out of its range; nothing was sent.
        """
        schedule = Schedule(name, call, timing(cron, options), enabled)
        return self._ask(connection, statement_of(schedule, None, self._schema()), bool)

    @overload
    def pause(self, connection: connections.Sync, name: str, /) -> bool: ...
    @overload
    def pause(self, connection: connections.Async, name: str, /) -> Awaitable[bool]: ...
    def pause(self, connection: connections.Sync | connections.Async, name: str, /) -> bool | Awaitable[bool]:
        """Dispatch no more, also where the code declares it. Answers whether there is such a schedule."""
        return self._ask(connection, self._statement("pause", name=check_name(name), pause=True), bool)

    @overload
    def resume(self, connection: connections.Sync, name: str, /) -> bool: ...
    @overload
    def resume(self, connection: connections.Async, name: str, /) -> Awaitable[bool]: ...
    def resume(self, connection: connections.Sync | connections.Async, name: str, /) -> bool | Awaitable[bool]:
        """Go on from now; what came due during the pause is not made up for. Answers whether there is such a one."""
        return self._ask(connection, self._statement("pause", name=check_name(name), pause=False), bool)

    @overload
    def delete(self, connection: connections.Sync, name: str, /) -> bool: ...
    @overload
    def delete(self, connection: connections.Async, name: str, /) -> Awaitable[bool]: ...
    def delete(self, connection: connections.Sync | connections.Async, name: str, /) -> bool | Awaitable[bool]:
        """Take it away; jobs that it has asked for go on. Answers whether there was such a schedule."""
        return self._ask(connection, self._statement("unschedule", name=check_name(name)), bool)

    @overload
    def trigger(self, connection: connections.Sync, name: str, /) -> str | None: ...
    @overload
    def trigger(self, connection: connections.Async, name: str, /) -> Awaitable[str | None]: ...
    def trigger(
        self, connection: connections.Sync | connections.Async, name: str, /
    ) -> str | Awaitable[str | None] | None:
        """Ask for its job once, beside its occurrences. Answers the job's id; None: there is no such schedule."""
        return self._ask(connection, self._statement("trigger", name=check_name(name)), _id)

    def _statement(self, statement: str, **parameters: Any) -> Statement:
        return statements.load("schedules", self._schema())[statement], parameters

    def _ask(
        self, connection: connections.Sync | connections.Async, statement: Statement, read: Callable[[Any], R]
    ) -> R | Awaitable[R]:
        if drivers.is_async(connection):
            return _asked(cast(connections.Async, connection), statement, read)
        return read(drivers.ask(cast(connections.Sync, connection), statement))


async def _asked(connection: connections.Async, statement: Statement, read: Callable[[Any], R]) -> R:
    return read(await drivers.ask_async(connection, statement))


def _id(found: UUID | str | None) -> str | None:
    return None if found is None else str(found)


def check_name(name: object) -> str:
    """A schedule's name.

    Raises:
        OptionError: it is none.
    """
    if (
        not isinstance(name, str)
        or not _NAME.match(name)
        or not name.strip()
        or len(name.encode("utf-8", "replace")) > 400
    ):
        why = "is no name of a schedule: pass 1 to 200 characters, none a control character"
        raise OptionError("name", name[:60] if isinstance(name, str) else name, why)
    return name


def timing(cron: str | None, options: TimingOptions) -> Timing:
    """The timing of a schedule from what a caller gave.

    Raises:
        OptionError: an option that does not exist, or is out of its range.
    """
    for option in options.keys() - TimingOptions.__annotations__.keys():
        known = ", ".join(TimingOptions.__annotations__)
        raise OptionError(option, options.get(option), f"is no option of a schedule: pass one of {known}")
    return Timing(cron=cron, **options)


def statement_of(schedule: Schedule, declared_by: str | None, schema: str = statements.SCHEMA) -> Statement:
    """The statement that makes or changes a schedule; it answers whether anything changed.

    Args:
        declared_by: the app whose code has it; None: it is made at run time.
    """
    call, when = schedule.call, schedule.timing
    is_json = call.codec == JSON
    parameters = {
        "name": schedule.name, "job": call.job, "queue": call.queue, "cron": when.cron, "every": when.every_s,
        "zone": when.zone, "input": call.payload.decode() if is_json else None,
        "payload": None if is_json else call.payload, "codec": None if is_json else call.codec,
        "catch_up": when.catch_up, "max_catch_up": when.max_catch_up, "misfire_grace": when.grace_s,
        "overlap": when.overlap, "jitter": when.jitter_s, "starts_at": when.starts_at, "ends_at": when.ends_at,
        "enabled": schedule.enabled, "priority": call.priority, "max_attempts": call.max_attempts,
        "expires_in": call.expires_in, "tenant_id": call.tenant_id, "headers": call.headers, "declared_by": declared_by,
        "lane": call.lane, "share_key": call.share_key, "idempotency_key": call.idempotency_key,
        "key_policy": call.key_policy, "key_window": call.key_window, "key_wait": call.key_wait,
        "key_longest": call.key_longest,
    }  # fmt: skip
    return statements.load("schedules", schema).create, parameters
