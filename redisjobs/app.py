"""The app: which jobs there are, and the door through which their calls go in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, TypeAlias, TypeVar, Unpack, cast, overload

from redisjobs import awaited, drivers, events, outbox
from redisjobs.base import connections
from redisjobs.base.codec import Codec, Codecs
from redisjobs.base.durations import Duration
from redisjobs.base.ids import parse_id
from redisjobs.broker import Broker
from redisjobs.call import Call, Handle, check_queue
from redisjobs.clients import Clients
from redisjobs.context import State_co
from redisjobs.errors import (
    ConfigurationError,
    EnqueueError,
)
from redisjobs.events import NewEvent, check_events
from redisjobs.job import Caller, Door, Job
from redisjobs.limits import AnyLimit, of_queues
from redisjobs.middleware import EnqueueMiddleware, M, Middleware, check, check_shape, shaping
from redisjobs.progress import Progress
from redisjobs.registry import Registry
from redisjobs.schedules import Schedule, Schedules, TimingOptions, timing
from redisjobs.settings import Settings
from redisjobs.stores import Stores
from redisjobs.tracing import sending

R = TypeVar("R")
C = TypeVar("C", bound=Caller[..., Any])

Calls: TypeAlias = Call[Any] | Iterable[Call[Any]]


class App(Registry[State_co]):
    """The jobs of a program, and the stores that they go through.

    Nothing connects before it is needed: a module that only declares jobs needs no store.

    Args:
        name: for logs.
        database_url: Postgres; else from the environment (`Settings` says how).
        redis_url: Redis, likewise.
        database_password: apart from its URL, as it is.
        redis_password: likewise.
        schema: the Postgres schema of the tables.
        prefix: what every Redis key begins with.
        codec: wraps every payload, such as an `EncryptedCodec`.
        lifespan: an async context manager over the app, entered by each worker process before its first job and left
            after its last; what it yields is `ctx.state` of every body.
        middleware: around each attempt, the first outermost.
        enqueue_middleware: changes the options of each call that is made here, in this order.
        queue_limits: by queue, limits and rates of all jobs that run from it, whatever these declare themselves.

    Raises:
        ConfigurationError: a setting that cannot work.
    """

    def __init__(
        self,
        name: str = "app",
        *,
        database_url: str | None = None,
        redis_url: str | None = None,
        database_password: str | None = None,
        redis_password: str | None = None,
        schema: str = "redisjobs",
        prefix: str = "rj",
        codec: Codec | None = None,
        lifespan: Callable[[App[Any]], AbstractAsyncContextManager[State_co]] | None = None,
        middleware: Iterable[Middleware] = (),
        enqueue_middleware: Iterable[EnqueueMiddleware] = (),
        queue_limits: Mapping[str, AnyLimit | Sequence[AnyLimit]] | None = None,
    ) -> None:
        super().__init__()
        self.queue_limits = of_queues(queue_limits or {})
        for queue, limits in self.queue_limits.items():
            self._note_limits(f"queue {queue!r}", limits)
        self.lifespan = lifespan
        self.middlewares = [check(each) for each in middleware]
        self._shapes = [check_shape(each) for each in enqueue_middleware]
        self.shape = shaping(self._shapes)
        self.name = name
        settings = Settings.load(
            database_url=database_url,
            redis_url=redis_url,
            database_password=database_password,
            redis_password=redis_password,
            schema=schema,
            prefix=prefix,
        )
        self.codecs = Codecs(codec)
        self.stores = Stores(settings)
        self._clients = Clients(self._connect)
        self.schedules = Schedules(name, lambda: self.settings.schema)

    @property
    def settings(self) -> Settings:
        """Where its stores are; a command puts others in their place."""
        return self.stores.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self.stores.settings = settings

    @property
    def door(self) -> Door:
        """Where the calls of its jobs go in."""
        return self

    def middleware(self, function: M) -> M:
        """Add a middleware around each attempt, inside of those that are there; for workers that start after it.

        Raises:
            ConfigurationError: it is not async, or does not take two arguments.
        """
        self.middlewares.append(check(function))
        return function

    def enqueue_middleware(self, function: EnqueueMiddleware) -> EnqueueMiddleware:
        """Add one that changes the options of each call, after those that are there.

        Raises:
            ConfigurationError: it is async, or does not take two arguments.
        """
        self._shapes.append(check_shape(function))
        self.shape = shaping(self._shapes)
        return function

    # -- schedules
    @overload
    def schedule(
        self, cron: str | None = None, /, *, call: Call[Any], name: str, enabled: bool | None = None,
        **options: Unpack[TimingOptions],
    ) -> Schedule: ...  # fmt: skip
    @overload
    def schedule(
        self, cron: str | None = None, /, *, name: str | None = None, enabled: bool | None = None,
        **options: Unpack[TimingOptions],
    ) -> Callable[[C], C]: ...  # fmt: skip
    def schedule(
        self, cron: str | None = None, /, *, call: Call[Any] | None = None, name: str | None = None,
        enabled: bool | None = None, **options: Unpack[TimingOptions],
    ) -> Schedule | Callable[[C], C]:  # fmt: skip
        """Declare a schedule: `@app.schedule("0 9 * * 1-5", zone="Europe/Berlin")` above `@app.job`, of a job without
        arguments; or `app.schedule("0 9 * * *", name="report-eu", call=report.call(region="eu"))`.

        A scheduler of this app makes it when it starts. The options are those of `Timing`.

        Args:
            name: by default the job's.
            enabled: False: it is made paused. Afterwards the operator's pause counts.

        Raises:
            ConfigurationError: an option that cannot work, a job whose arguments are missing, a name that is taken.
        """
        when = timing(cron, options)
        if call is not None:
            return self.schedules.declare(Schedule(name or call.job, call, when, enabled))

        def declare(job: C) -> C:
            if not isinstance(job, Caller):  # pyright: ignore[reportUnnecessaryIsInstance]  # the order is easily wrong
                raise ConfigurationError("@app.schedule(…) stands above @app.job, not below: it takes a job")
            self.schedules.declare(Schedule(name or job.declared.name, job.call(), when, enabled))
            return job

        return declare

    # -- enqueuing
    @overload
    def enqueue_one(self, connection: connections.Sync, call: Call[R]) -> Handle[R]: ...
    @overload
    def enqueue_one(self, connection: connections.Async, call: Call[R]) -> Awaitable[Handle[R]]: ...
    def enqueue_one(
        self, connection: connections.Sync | connections.Async, call: Call[R]
    ) -> Handle[R] | Awaitable[Handle[R]]:
        """Stage one call, with the type of its result."""
        answer = self._enqueue(connection, [call])
        if isinstance(answer, list):
            return answer[0]
        return _first(answer)

    @overload
    def enqueue(self, connection: connections.Sync, /, *calls: Calls) -> list[Handle[Any]]: ...
    @overload
    def enqueue(self, connection: connections.Async, /, *calls: Calls) -> Awaitable[list[Handle[Any]]]: ...
    def enqueue(
        self, connection: connections.Sync | connections.Async, /, *calls: Calls
    ) -> list[Handle[Any]] | Awaitable[list[Handle[Any]]]:
        """Stage many calls, of any jobs, in one statement of the caller's transaction, in this order.

        On an async connection the answer is to be awaited. Nothing is committed here; no calls are no statement.

        Raises:
            EnqueueError: a call cannot be staged; nothing was written.
            ConfigurationError: the schema is missing.
        """
        return self._enqueue(connection, _flat(calls))

    def _enqueue(
        self, connection: connections.Sync | connections.Async, calls: list[Call[R]]
    ) -> list[Handle[R]] | Awaitable[list[Handle[R]]]:
        if drivers.is_async(connection):
            return self._enqueue_async(cast(connections.Async, connection), calls)
        if calls:
            with sending(calls) as sent:
                self.stores.stage(cast(connections.Sync, connection), sent)
        return [self._handle(call) for call in calls]

    async def _enqueue_async(self, connection: connections.Async, calls: list[Call[R]]) -> list[Handle[R]]:
        if calls:
            with sending(calls) as sent:
                await self.stores.stage_async(connection, sent)
        return [self._handle(call) for call in calls]

    async def enqueue_direct(self, *calls: Calls) -> list[Handle[Any]]:
        """Put calls straight into Redis, in no transaction; `Job.enqueue_direct` says what that does not promise.

        Raises:
            EnqueueError: a transactional job, which needs a row; nothing was sent.
            BrokerUnavailable: Redis does not answer; any of the jobs may be there all the same.
        """
        flat = _flat(calls)
        if not flat:
            return []
        for call in flat:
            self._check_direct(call)
        with sending(flat) as sent:
            return await self._put(sent)

    def _check_direct(self, call: Call[Any]) -> None:
        job = self.jobs.get(call.job)
        if job is not None and job.declaration.transactional:
            raise EnqueueError(
                f"job {call.job!r} is transactional: its end is written into its row, and a direct one has none; "
                "enqueue it in a transaction"
            )

    async def _put(self, flat: list[Call[Any]]) -> list[Handle[Any]]:
        queues: dict[str, list[int]] = {}
        for place, call in enumerate(flat):
            queues.setdefault(call.queue, []).append(place)
        handles = [self._handle(call) for call in flat]
        for queue, places in queues.items():
            words = await self.stores.put(self.broker, queue, [flat[place] for place in places])
            for place, (word, owner) in zip(places, words, strict=True):
                if owner is not None and word != "replaces":
                    handles[place] = self._handle(flat[place], owner)
        return handles

    async def enqueue_direct_one(self, call: Call[R]) -> Handle[R]:
        """One call straight into Redis, with the type of its result."""
        return (await self.enqueue_direct(call))[0]

    # -- asking
    def handle(self, job_id: str, job: Job[Any, R], queue: str | None = None) -> Handle[R]:
        """The handle of a job that was enqueued elsewhere."""
        return Handle(str(parse_id(job_id)), job.name, check_queue(queue or job.queue), _home=self)

    @overload
    def cancel(self, connection: connections.Sync, job_id: str, /) -> str: ...
    @overload
    def cancel(self, connection: connections.Async, job_id: str, /) -> Awaitable[str]: ...
    def cancel(self, connection: connections.Sync | connections.Async, job_id: str, /) -> str | Awaitable[str]:
        """Ask for a job's end, in the caller's transaction.

        Answers `requested`; or for a job that has ended how it did: done, dead, cancelled, expired, deduplicated;
        or `unknown`. A waiting job ends once this commits, a running one is cancelled within about a second.
        """
        return self._ask(connection, outbox.cancel(parse_id(job_id), self.settings.schema))

    @overload
    def reprioritize(self, connection: connections.Sync, job_id: str, /, priority: int) -> str: ...
    @overload
    def reprioritize(self, connection: connections.Async, job_id: str, /, priority: int) -> Awaitable[str]: ...
    def reprioritize(
        self, connection: connections.Sync | connections.Async, job_id: str, /, priority: int
    ) -> str | Awaitable[str]:
        """Give a job that waits another priority, in the caller's transaction.

        Answers `changed`; `requested` where Redis has it: the relay moves it there once this commits, unless it runs by
        then; or for a job that has ended how it did, or `unknown`.

        Raises:
            OptionError: it is no priority.
        """
        return self._ask(connection, outbox.reprioritize(parse_id(job_id), priority, self.settings.schema))

    @overload
    def reschedule(
        self,
        connection: connections.Sync,
        job_id: str,
        /,
        *,
        run_at: datetime | None = ...,
        delay: Duration | None = ...,
    ) -> str: ...
    @overload
    def reschedule(
        self,
        connection: connections.Async,
        job_id: str,
        /,
        *,
        run_at: datetime | None = ...,
        delay: Duration | None = ...,
    ) -> Awaitable[str]: ...
    def reschedule(
        self,
        connection: connections.Sync | connections.Async,
        job_id: str,
        /,
        *,
        run_at: datetime | None = None,
        delay: Duration | None = None,
    ) -> str | Awaitable[str]:
        """Give a job that waits another time from which it may start: a moment, a distance from now, or now.

        Of one whose attempt has failed that is the next attempt. Answers as `reprioritize`; or `suspended`: the times
        of a durable run stand in its records, and it is left alone.

        Raises:
            OptionError: it is no time, or both are given.
        """
        return self._ask(connection, outbox.reschedule(parse_id(job_id), run_at, delay, self.settings.schema))

    def _ask(
        self, connection: connections.Sync | connections.Async, statement: drivers.Statement
    ) -> str | Awaitable[str]:
        if drivers.is_async(connection):
            return cast("Awaitable[str]", drivers.ask_async(cast(connections.Async, connection), statement))
        return str(drivers.ask(cast(connections.Sync, connection), statement))

    # -- events
    @overload
    def send_event(
        self, connection: connections.Sync, name: str, key: str = "", data: Any = None, *, expires_in: Duration = ...
    ) -> None: ...
    @overload
    def send_event(
        self, connection: connections.Async, name: str, key: str = "", data: Any = None, *, expires_in: Duration = ...
    ) -> Awaitable[None]: ...
    def send_event(
        self,
        connection: connections.Sync | connections.Async,
        name: str,
        key: str = "",
        data: Any = None,
        *,
        expires_in: Duration = events.KEPT_S,
    ) -> Awaitable[None] | None:
        """Send an event in the caller's transaction; the run that waits for it, now or later, takes it once.

        On an async connection the answer is to be awaited. `NewEvent` says what may be given.

        Raises:
            OptionError, EncodeError: it cannot be sent; nothing was written.
            ConfigurationError: the schema is missing. StoreRefused: the role may not do it.
        """
        return self._send(connection, [NewEvent(name, key, data, expires_in)])

    @overload
    def send_events(self, connection: connections.Sync, events: Iterable[NewEvent], /) -> None: ...
    @overload
    def send_events(self, connection: connections.Async, events: Iterable[NewEvent], /) -> Awaitable[None]: ...
    def send_events(
        self, connection: connections.Sync | connections.Async, events: Iterable[NewEvent], /
    ) -> Awaitable[None] | None:
        """Many events in one statement, in this order; as `send_event`. No events are no statement."""
        return self._send(connection, check_events(events))

    def _send(self, connection: connections.Sync | connections.Async, new: list[NewEvent]) -> Awaitable[None] | None:
        statement = events.send(new, self.codecs, self.settings.schema) if new else None
        if drivers.is_async(connection):
            return self._send_async(cast(connections.Async, connection), statement)
        if statement is not None:
            drivers.send(cast(connections.Sync, connection), statement)
        return None

    async def _send_async(self, connection: connections.Async, statement: drivers.Statement | None) -> None:
        if statement is not None:
            await drivers.send_async(connection, statement)

    async def holder(self, queue: str, key: str) -> str | None:
        """The id of the published job that holds an idempotency key in this queue, now or in its window."""
        found = await self.broker().holder(check_queue(queue), key)
        return None if found is None else str(parse_id(found))

    async def result_of(self, handle: Handle[R], timeout: Duration | None) -> R:
        """What `Handle.result` answers."""
        job = cast("Job[Any, R]", self.find(handle.job))
        if job.declaration.result_ttl_s is None:
            raise ConfigurationError(f"job {job.name!r} keeps no result: declare it with result_ttl=…, in seconds")
        return await awaited.result(self.broker(), job, handle.queue, parse_id(handle.id), timeout)

    async def progress_of(self, handle: Handle[Any]) -> Progress | None:
        """What `Handle.progress` answers."""
        return await self.broker().progress(handle.queue, parse_id(handle.id).bytes)

    def broker(self) -> Broker:
        """The broker for the event loop that runs here.

        Raises:
            ConfigurationError: no Redis URL was given.
        """
        return self._clients.here()

    async def close(self) -> None:
        """Give back the connections that this event loop holds."""
        await self._clients.close()

    def _connect(self) -> Broker:
        return self.stores.broker()

    def _handle(self, call: Call[R], owner: bytes | None = None) -> Handle[R]:
        job_id = call.id if owner is None else parse_id(owner)
        return Handle(str(job_id), call.job, call.queue, owner is not None, self)


async def _first(handles: Awaitable[list[Handle[R]]]) -> Handle[R]:
    return (await handles)[0]


def _flat(calls: Iterable[Calls]) -> list[Call[Any]]:
    flat: list[Call[Any]] = []
    for each in calls:
        flat.extend([each] if isinstance(each, Call) else each)
    for call in flat:
        _check_call(call)
    return flat


def _check_call(call: object) -> None:
    if not isinstance(call, Call):
        raise EnqueueError(f"a {type(call).__name__} is no call: pass job.call(…), with the job's arguments")
