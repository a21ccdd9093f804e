"""One attempt to deliver: find the endpoint, sign, send, and say what came of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from redisjobs.app import App
from redisjobs.context import Context
from redisjobs.errors import RedisjobsError, Snooze, StoreUnavailable
from redisjobs.logs import event
from redisjobs.webhooks.answers import AddressRefused, Answer, NoAnswer, Verdict
from redisjobs.webhooks.endpoint import Endpoint
from redisjobs.webhooks.failures import DeliveryFailed, DeliveryRefused
from redisjobs.webhooks.message import message
from redisjobs.webhooks.options import WebhookOptions
from redisjobs.webhooks.retry_after import retry_after
from redisjobs.webhooks.session import Session, Sessions
from redisjobs.webhooks.signing import signed_headers
from redisjobs.webhooks.state import Failure, State
from redisjobs.webhooks.store import EndpointUnreadable
from redisjobs.webhooks.tally import Tally

STORE_AWAY_S = 5.0
"""After which a delivery comes back, uncounted, whose endpoint could not be asked for."""
TEST = "redisjobs-webhook"
"""The header of a call by which a delivery says that it is a test: it goes out to a disabled endpoint too."""

log = logging.getLogger("redisjobs.webhooks")


@dataclass(frozen=True, slots=True)
class _Aim:
    """An endpoint as this attempt found it.

    Args:
        declared: its state is to be kept though it is not stored.
    """

    endpoint: Endpoint
    state: State
    declared: bool


@dataclass(frozen=True, slots=True)
class _End:
    """What an attempt came to.

    Args:
        signal: how the job goes on; None: the delivery was accepted.
        status: that was answered; None: none was.
        gone: the endpoint said that it is gone for good.
    """

    signal: DeliveryFailed | DeliveryRefused | None
    status: int | None = None
    gone: bool = False


class Deliverer:
    """The body of the job that `webhook(...)` declares."""

    def __init__(self, app: App, options: WebhookOptions) -> None:
        self.options = options
        self.sessions = Sessions(app, options)
        self.tally = Tally()
        self._declared = {each.name: each for each in options.endpoints}

    async def deliver(self, ctx: Context[Any], endpoint: str, type: str, data: Any = None) -> None:  # noqa: A002
        """Send an event to an endpoint.

        Args:
            endpoint: its name.
            type: what happened, such as `invoice.paid`.
            data: anything that JSON can hold.
        """
        try:
            body = message(ctx, type, data)
        except (TypeError, ValueError, RecursionError) as error:
            raise DeliveryRefused(f"its data cannot be sent as JSON: {error}") from None
        async with self.sessions.one() as session:
            aim = await self._find(session, endpoint)
            if not aim.state.is_enabled and not _is_test(ctx):
                raise DeliveryRefused(
                    f"endpoint {endpoint!r} is disabled: {aim.state.disabled_why}; once that is mended, "
                    f"`redisjobs webhooks endpoints enable` and `redisjobs webhooks redeliver` bring this back"
                )
            await self._attempt(session, aim, ctx, body)

    async def _find(self, session: Session, name: str) -> _Aim:
        """Where this delivery goes.

        Raises:
            Snooze: nobody can be asked now.
            DeliveryFailed: there is no such endpoint, or not yet: a deploy may be half rolled out.
        """
        try:
            found = await session.store.find(name)
        except StoreUnavailable as error:
            event(log, logging.WARNING, "webhook.unasked", endpoint=name, error=str(error))
            raise Snooze(STORE_AWAY_S) from None
        except EndpointUnreadable as error:
            raise DeliveryFailed(f"endpoint {name!r}: {error}") from None
        state = State() if found is None else found.state
        if (ours := self._declared.get(name)) is not None:
            return _Aim(ours, state, declared=True)
        if found is None or found.endpoint is None:
            raise DeliveryFailed(
                f"no endpoint {name!r} is known here: declare it in webhook(…, endpoints=[…]), or store it with "
                "`redisjobs webhooks endpoints add`"
            )
        return _Aim(found.endpoint, state, declared=False)

    async def _attempt(self, session: Session, aim: _Aim, ctx: Context[Any], body: bytes) -> None:
        began = time.monotonic()
        end = await self._post(session, aim.endpoint, ctx.job_id, body)
        took, name = time.monotonic() - began, aim.endpoint.name
        final = isinstance(end.signal, DeliveryRefused) or ctx.attempt >= ctx.max_attempts
        self.tally.timed(name, took)
        self.tally.count(name, "delivered" if end.signal is None else "failed" if final else "retried")
        if not _is_test(ctx):
            await self._note(session, aim, end, final=final)
        if end.signal is not None:
            raise end.signal
        event(
            log, logging.DEBUG, "webhook.delivered", endpoint=name, job_id=ctx.job_id, attempt=ctx.attempt,
            status=end.status, seconds=took,
        )  # fmt: skip

    async def _post(self, session: Session, endpoint: Endpoint, message_id: str, body: bytes) -> _End:
        """Sign with a timestamp of now, and send."""
        own = {**self.options.headers, **endpoint.headers}
        headers = {
            "content-type": "application/json", "user-agent": "redisjobs", **own,
            **signed_headers(endpoint.keys, message_id, int(time.time()), body),
        }  # fmt: skip
        try:
            answer = await session.sender.post(endpoint.target, headers, body, self.options.timeout_s)
        except NoAnswer as error:
            return _End(DeliveryFailed(f"endpoint {endpoint.name!r} gave no answer: {error}"))
        except AddressRefused as error:
            return _End(DeliveryRefused(f"endpoint {endpoint.name!r} may not be reached: {error}"))
        return _read(endpoint.name, answer, hidden=own.values())

    async def _note(self, session: Session, aim: _Aim, end: _End, *, final: bool) -> None:
        """Keep how the endpoint behaves. A store that is away loses this note and no delivery."""
        name = aim.endpoint.name
        try:
            if end.signal is None:
                await session.store.delivered(name, declared=aim.declared)
                if aim.state.failing_since is not None:
                    event(log, logging.INFO, "webhook.endpoint_recovered", endpoint=name)
                return
            failure = Failure(end.signal.reason, final, end.gone)
            noted = await session.store.failed(name, failure, self.options.disable_after, declared=aim.declared)
        except RedisjobsError as error:
            event(log, logging.WARNING, "webhook.unnoted", endpoint=name, error=str(error))
            return
        if noted is not None and noted.disabled_why is not None and aim.state.is_enabled:
            event(
                log, logging.ERROR, "webhook.endpoint_disabled", endpoint=name, why=noted.disabled_why,
                remedy=f"once that is mended: redisjobs webhooks endpoints enable {name}",
            )  # fmt: skip


def _read(name: str, answer: Answer, hidden: Iterable[str]) -> _End:
    """What an answer means for the delivery."""
    verdict, reason = answer.verdict, f"endpoint {name!r} answered {answer.status}"
    if verdict is Verdict.DELIVERED:
        return _End(None, answer.status)
    if verdict is Verdict.RETRY:
        after = retry_after(answer.headers, time.time())
        return _End(DeliveryFailed(reason, after, answer.excerpt(hidden)), answer.status)
    refused = DeliveryRefused(f"{reason}: {verdict.value}", answer.excerpt(hidden))
    return _End(refused, answer.status, gone=verdict is Verdict.GONE)


def _is_test(ctx: Context[Any]) -> bool:
    return ctx.headers.get(TEST) == "test"
