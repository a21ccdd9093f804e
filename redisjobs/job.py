"""A declared job: a function that can also be called later, with the same arguments and types."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from redisjobs import backoff, far_errors
from redisjobs.base import connections
from redisjobs.base.codec import Codecs
from redisjobs.base.durations import Duration
from redisjobs.base.ids import new_id
from redisjobs.base.signature import Signature
from redisjobs.body import check_body
from redisjobs.call import Call, Handle, Options, as_seconds, headers_text
from redisjobs.context import Context, current
from redisjobs.declaration import Declaration
from redisjobs.grouping import Grouping
from redisjobs.limiting import Limiting
from redisjobs.policy import Debounce, Mode, Singleton, Throttle
from redisjobs.tracing import traceparent

P = ParamSpec("P")
R = TypeVar("R")


class Door(Protocol):
    """Where the calls of a job go in: the app."""

    @property
    def codecs(self) -> Codecs: ...

    @property
    def shape(self) -> Callable[[str, Options], Options] | None: ...

    @overload
    def enqueue_one(self, connection: connections.Sync, call: Call[R]) -> Handle[R]: ...
    @overload
    def enqueue_one(self, connection: connections.Async, call: Call[R]) -> Awaitable[Handle[R]]: ...

    async def enqueue_direct_one(self, call: Call[R]) -> Handle[R]: ...


class Caller(Generic[P, R]):
    """Makes calls of one job, with options that are fixed beforehand."""

    def __init__(self, job: Job[P, R] | None, options: Options) -> None:
        self._job: Job[P, R] = self if job is None else job  # type: ignore[assignment]  # only a Job passes None
        self._options = options

    @property
    def declared(self) -> Job[P, R]:
        """The job whose calls it makes."""
        return self._job

    @property
    def options(self) -> Options:
        """What `using` was given."""
        return self._options

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """The call as a value: arguments encoded, options checked, nothing sent.

        Raises:
            ArgumentsError: the arguments do not fit the signature.
            EncodeError: a value cannot travel, or the whole is above 1 MiB.
        """
        return self._job.make_call(self._options, args, kwargs)

    @overload
    def enqueue(self, connection: connections.Sync, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    def enqueue(self, connection: connections.Async, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[Handle[R]]: ...
    def enqueue(
        self, connection: connections.Sync | connections.Async, /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[R] | Awaitable[Handle[R]]:
        """Stage the call in the caller's own transaction: committing it is enqueuing.

        On an async connection the answer is to be awaited. Nothing is committed here. What is refused is refused
        before a statement is sent, so the transaction stays usable.

        Raises:
            EnqueueError: the call cannot be staged; nothing was written.
            ConfigurationError: the schema is missing.
        """
        return self._job.door.enqueue_one(connection, self.call(*args, **kwargs))

    async def enqueue_direct(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Put the call straight into Redis, in no transaction.

        Not what `enqueue` promises: it runs even if your transaction rolls back, and it is lost if Redis loses
        its data before the job has ended.

        Raises:
            EnqueueError: the call was refused; nothing was written.
            BrokerUnavailable: Redis does not answer; the job may be there all the same.
        """
        return await self._job.door.enqueue_direct_one(self.call(*args, **kwargs))


class BoundJob(Caller[P, R]):
    """A job with options for its calls, as `using` answers it."""


class Job(Caller[P, R]):
    """A function declared as a job.

    `job(...)` runs the function here and now; `job.enqueue(connection, ...)` has a worker run it.
    """

    def __init__(self, function: Callable[..., Any], declaration: Declaration, door: Door) -> None:
        check_body(declaration.name, function, process=declaration.process)
        super().__init__(None, Options())
        self.function = function
        self.declaration = declaration
        self.door = door
        self.is_async = inspect.iscoroutinefunction(function)
        self.runs_plainly = self.is_async and not declaration.transactional
        self.signature = self._signature(Signature(declaration.name, function, Context, _locals_of(function)))
        self._grouping = Grouping(declaration, self.signature)
        self.limiting = Limiting(tuple(declaration.limits), self.signature) if declaration.limits else None
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", declaration.name)
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<job {self.name}>"

    def _signature(self, of_function: Signature) -> Signature:
        """That of its calls."""
        return of_function

    @property
    def name(self) -> str:
        """The name under which rows and workers know it."""
        return self.declaration.name

    @property
    def queue(self) -> str:
        """The queue of calls that name none."""
        return self.declaration.queue

    def using(
        self,
        *,
        queue: str | None = None,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        idempotency_key: str | None = None,
        window: Duration | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        expires: Duration | datetime | None = None,
        tenant: str | None = None,
        headers: Mapping[str, Any] | None = None,
        enqueued_by: str | None = None,
        lane: str | None = None,
        share: str | None = None,
        throttle: Throttle | None = None,
        debounce: Debounce | None = None,
        singleton: Singleton | Mode | None = None,
    ) -> BoundJob[P, R]:
        """The job with options for its calls, apart from its arguments: what they mean is told at `Options`.

        Raises:
            OptionError: an option out of its range.
        """
        options = Options(
            queue=queue,
            delay=delay,
            run_at=run_at,
            idempotency_key=idempotency_key,
            window=window,
            priority=priority,
            max_attempts=max_attempts,
            expires=expires,
            tenant=tenant,
            headers=headers,
            enqueued_by=enqueued_by,
            lane=lane,
            share=share,
            throttle=throttle,
            debounce=debounce,
            singleton=singleton,
        )
        return BoundJob(self, options)

    def make_call(self, options: Options, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[R]:
        """The call with these options, as the app's enqueue middleware shapes them, and arguments."""
        if self.door.shape is not None:
            options = self.door.shape(self.name, options)
        codec, payload = self.door.codecs.encode(self.signature.bind(args, kwargs))
        expires = options.expires
        call: Call[R] = Call(
            id=new_id(),
            job=self.name,
            queue=options.queue or self.queue,
            codec=codec,
            payload=payload,
            idempotency_key=options.idempotency_key,
            key_window=as_seconds(options.window),
            priority=self.declaration.priority if options.priority is None else options.priority,
            max_attempts=options.max_attempts,
            run_at=options.run_at,
            delay=as_seconds(options.delay),
            expires_at=expires if isinstance(expires, datetime) else None,
            expires_in=None if isinstance(expires, datetime) else as_seconds(expires),
            tenant_id=options.tenant,
            traceparent=traceparent(),
            enqueued_by=options.enqueued_by,
            headers=headers_text(options.headers),
            version=self.declaration.version,
            result_ttl=None if options.idempotency_key is None else self.declaration.result_ttl_s,
        )
        if self._grouping.is_plain and not options.has_groups:
            return call
        return self._grouped(call, options, args, kwargs)

    def _grouped(self, call: Call[R], options: Options, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[R]:
        groups = self._grouping.of(options, args, kwargs)
        return replace(
            call,
            idempotency_key=groups.idempotency_key,
            key_window=groups.key_window,
            lane=groups.lane,
            share_key=groups.share_key,
            key_policy=groups.key_policy,
            key_wait=groups.key_wait,
            key_longest=groups.key_longest,
            result_ttl=None if groups.idempotency_key is None else self.declaration.result_ttl_s,
        )

    @property
    def takes_context(self) -> bool:
        """Whether the function's first parameter is for the context."""
        return self.signature.takes_context

    def arguments(self, codec: str, payload: bytes) -> dict[str, Any]:
        """The function's arguments by name, from a payload; the context is not among them.

        Raises:
            DecodeError: the payload cannot be read or does not fit. The text shows no argument.
        """
        return self.signature.arguments(self.door.codecs.decode(codec, payload))

    def invoke(self, context: Context, arguments: dict[str, Any]) -> Any:
        """Call the function: what it returns, and for an async one its coroutine."""
        if self.signature.takes_context:
            return self.function(context, **arguments)
        return self.function(**arguments)

    def encode_result(self, value: Any) -> tuple[str, bytes]:
        """Codec and payload of what the function returned.

        Raises:
            EncodeError: it cannot travel.
        """
        return self.door.codecs.encode(self.signature.write_result(value), "the result")

    def decode_result(self, codec: str, payload: bytes) -> R:
        """What the function returned.

        Raises:
            DecodeError: it cannot be read.
        """
        result: R = self.signature.read_result(self.door.codecs.decode(codec, payload))
        return result

    def retries(self, error: BaseException) -> bool:
        """Whether an attempt that ended in this error is worth another one; that of a step is told by its cause."""
        declared = self.declaration
        kinds = far_errors.kinds_of(error)
        if any(issubclass(kind, declared.fatal_errors) for kind in kinds):
            return False
        return not declared.retried_errors or any(issubclass(kind, declared.retried_errors) for kind in kinds)

    def delay_after(self, attempt: int, error: BaseException) -> float:
        """Seconds to wait after this attempt (from 1); never raises."""
        return backoff.delay_after(self.declaration.retry_rule, attempt, error)

    def _call_here(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.takes_context:
            return self.function(*args, **kwargs)
        context = current() or Context.detached(self.name, self.queue)
        return self.function(context, *args, **kwargs)


class AsyncJob(Job[P, R]):
    """A job whose function is async."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Run the function here, not as a job; one that takes a context gets the current or a detached one."""
        coroutine: Coroutine[Any, Any, R] = self._call_here(args, kwargs)
        return coroutine


class SyncJob(Job[P, R]):
    """A job whose function is an ordinary one; a worker runs it in a thread."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here, not as a job; one that takes a context gets the current or a detached one."""
        result: R = self._call_here(args, kwargs)
        return result


def _locals_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The names around a function declared inside another one, for its annotations."""
    if "<locals>" not in getattr(function, "__qualname__", ""):
        return {}
    frame = inspect.currentframe()
    module = getattr(function, "__module__", None)
    while frame is not None and frame.f_globals.get("__name__") != module:
        frame = frame.f_back
    return {} if frame is None else dict(frame.f_locals)
