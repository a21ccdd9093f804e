"""What does not fit a task's function or its options is refused where it is written."""

from __future__ import annotations

from redisjobs.integrations.django import task


@task(max_attempts=2)
def double(number: int) -> int:
    return 2 * number


def enqueuing() -> None:
    double.enqueue("one")  # refused
    double.enqueue()  # refused
    double.using(attempts=3)  # refused
