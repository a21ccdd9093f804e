"""Where Redis has a job, for commands that begin with its id; it may have one that Postgres does not know."""

from __future__ import annotations

from uuid import UUID

from redisjobs.broker.view import Place, View
from redisjobs.cli.options import unknown
from redisjobs.errors import RedisjobsError
from redisjobs.operator import JobRow
from redisjobs.settings import Settings


def find_place(settings: Settings, wanted: UUID, row: JobRow | None) -> tuple[Place | None, str | None]:
    """Where Redis has it, or why that is not known. A job that was put there directly may be in any queue."""
    if settings.redis_url is None:
        return None, "no Redis URL was given"
    try:
        with View(settings.redis_url, settings.prefix) as view:
            names = [row.queue] if row is not None else sorted(view.queues())
            places = (view.place(name, wanted.bytes) for name in names)
            return next((place for place in places if place is not None), None), None
    except RedisjobsError as error:
        return None, str(error)


def no_row(settings: Settings, wanted: UUID) -> str:
    """What is said of a job without a row to whoever wants to end or to change it."""
    place, _ = find_place(settings, wanted, None)
    if place is None or not place.direct:
        return unknown(wanted)
    return (
        f"job {wanted} ({place.job}) was put into Redis directly: it has no row, and ends by itself; "
        "what an operator shall end or move is enqueued in a transaction."
    )
