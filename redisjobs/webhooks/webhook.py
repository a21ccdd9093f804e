"""`webhook(app, …)`: declares the job that delivers."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from redisjobs.app import App
from redisjobs.backoff import RetryRule
from redisjobs.base.durations import Duration
from redisjobs.context import Context
from redisjobs.errors import ConfigurationError
from redisjobs.job import AsyncJob, Job
from redisjobs.limits import Limit
from redisjobs.webhooks.delivery import Deliverer
from redisjobs.webhooks.endpoint import Endpoint
from redisjobs.webhooks.options import WebhookOptions
from redisjobs.webhooks.schedule import ATTEMPTS

P = ParamSpec("P")
W = ParamSpec("W")
T = TypeVar("T")


def _delivering(
    _deliver: Callable[Concatenate[Any, Context[Any], P], Coroutine[Any, Any, T]],
) -> Callable[[Callable[W, Any]], Callable[W, AsyncJob[P, T]]]:
    """Gives a function that declares the job of a method the type of that job: its arguments by their names."""
    return lambda function: function


@_delivering(Deliverer.deliver)
def webhook(
    app: App[Any],
    *,
    name: str = "webhook",
    queue: str = "webhooks",
    endpoints: Sequence[Endpoint] = (),
    max_attempts: int = ATTEMPTS,
    retry: RetryRule | None = None,
    timeout: Duration = 20.0,
    disable_after: int = 20,
    max_concurrent: int = 10,
    allow: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    keys: Sequence[bytes | str] | None = None,
) -> Any:
    """Declare the job that delivers webhooks; what the options mean is told at `WebhookOptions`.

        hooks = webhook(app, endpoints=[Endpoint("billing", "https://…", "whsec_…")])
        hooks.enqueue(connection, endpoint="billing", type="invoice.paid", data={"invoice": 17})

    It is a job like any other: its calls are rows of the caller's transaction, it is retried, becomes a dead letter
    and is redriven. A delivery reaches its receiver at least once; `webhook-id` is the same each time.

    Raises:
        ConfigurationError: an option or an endpoint that cannot work, or a job of this name is there.
    """
    options = WebhookOptions(
        name=name, queue=queue, endpoints=endpoints, max_attempts=max_attempts, retry=retry, timeout=timeout,
        disable_after=disable_after, max_concurrent=max_concurrent, allow=allow, tls=tls, keys=keys,
        headers={} if headers is None else headers,
    )  # fmt: skip
    if name in app.jobs:
        raise ConfigurationError(
            f"two jobs are named {name!r}: a worker finds a job by its name, so give this webhook(…) another name=…"
        )
    deliverer = Deliverer(app, options)
    limit = Limit(options.max_concurrent, key="endpoint", name=options.limit_name)
    job = app.job(name=name, queue=queue, max_attempts=max_attempts, retry=options.rule, limit=limit)(deliverer.deliver)
    app.lifespan = _beside(app.lifespan, deliverer)
    return job


def deliverer_of(job: Job[Any, Any]) -> Deliverer | None:
    """Who delivers for this job; None: it is another job."""
    owner = getattr(job.function, "__self__", None)
    return owner if isinstance(owner, Deliverer) else None


def _beside(lifespan: Callable[[App[Any]], Any] | None, deliverer: Deliverer) -> Callable[[App[Any]], Any]:
    """The app's lifespan, around which the deliverer keeps what its first delivery opens."""

    @asynccontextmanager
    async def both(app: App[Any]) -> AsyncGenerator[Any]:
        async with deliverer.sessions.kept():
            if lifespan is None:
                yield None
                return
            async with lifespan(app) as state:
                yield state

    return cast("Callable[[App[Any]], Any]", both)
