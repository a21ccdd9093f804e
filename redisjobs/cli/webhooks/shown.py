"""Endpoints as people see them: a table, and what is wrong with which."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from redisjobs.base.durations import many
from redisjobs.cli import render
from redisjobs.webhooks.admin import EndpointLine


def show_table(found: Sequence[EndpointLine]) -> None:
    """Print endpoints, each ok, failing since when, or disabled and why."""
    render.table(
        ["endpoint", "state", "since", "failed in a row", "last delivered", "url", "why"],
        ([each.name, each.state.word, each.disabled_at or each.failing_since, each.failures, each.last_delivered_at,
          each.shown_url or "(in a program)", render.short(each.disabled_why or each.last_error, 80)]
         for each in found),
    )  # fmt: skip


def wrong(found: Sequence[EndpointLine]) -> Generator[str]:
    """What keeps deliveries from arriving, and what to do about each."""
    for each in found:
        if not each.state.is_enabled:
            yield (
                f"endpoint {each.name} is disabled: {each.disabled_why}\n"
                f"  once that is mended: redisjobs webhooks endpoints enable '{each.name}', and then "
                f"redisjobs webhooks redeliver --endpoint '{each.name}'"
            )
        elif each.failures:
            failed = many(each.failures, "delivery", "deliveries")
            yield f"endpoint {each.name}: {failed} in a row failed: {each.last_error}"
