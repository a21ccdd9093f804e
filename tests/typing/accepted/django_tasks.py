"""A task of Django's on redisjobs keeps the parameters of its function, and takes the options of a job."""

from __future__ import annotations

from typing import Any, assert_type

from redisjobs.integrations.django import task


@task
def double(number: int) -> int:
    return 2 * number


@task(queue_name="mail", max_attempts=5, timeout=30, retry=[1, 2])
def mail(to: str, *, subject: str = "") -> bool:
    return bool(to + subject)


@task(takes_context=True, priority=5)
async def with_context(context: Any, number: int) -> None:
    print(context, number)


def enqueuing() -> None:
    assert_type(double.using(priority=1).call(1), int)
    double.enqueue(1)
    mail.using(idempotency_key="k", window=5, tenant="t").enqueue("a@example.com", subject="hello")
    with_context.enqueue(1)
    print(double.enqueue(1).id)
