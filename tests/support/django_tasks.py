"""Tasks of the Django project inside of the tests."""

from __future__ import annotations

import threading
from typing import Any

from tests.support import django_site

django_site.set_up()

from django.contrib.auth.models import Group  # noqa: E402
from django.db import connection  # noqa: E402

from redisjobs.integrations.django import app_of, task  # noqa: E402

seen: list[Any] = []


@task
def double(number: int) -> int:
    return 2 * number


@task(queue_name="mail", max_attempts=2, retry=[0.01], result_ttl=60)
def fail(*words: str, **named: Any) -> None:
    raise LookupError(" ".join([*words, *named.values()]))


@task(takes_context=True, max_attempts=3, retry=[0.01])
def third_time(context: Any, word: str) -> str:
    if context.attempt < 3:
        raise ValueError(word)
    return f"{word}, attempt {context.attempt} of {context.task_result.id}"


@task(takes_context=True)
async def add_group(context: Any, name: str) -> str:
    made = await Group.objects.acreate(name=name)
    return f"{made.name} by {context.task_result.task.name}"


@task(max_attempts=1)
def returns_a_function() -> Any:
    return lambda: True


@task
def count_groups() -> int:
    seen.append((threading.current_thread().name, connection.connection))
    return Group.objects.count()


@task(backend="elsewhere")
def far_away() -> str:
    return "far away"


@app_of().job(name="count-groups", result_ttl=60)
def counted() -> int:
    return Group.objects.count()
