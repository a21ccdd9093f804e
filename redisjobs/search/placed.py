"""Jobs by where they are in Redis, which Postgres does not know: waiting, running or due."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from uuid import UUID

from redisjobs.base.envelope import Envelope
from redisjobs.broker.view import View
from redisjobs.operator import JobLine
from redisjobs.search.filters import JobFilter
from redisjobs.search.walks import Search


class Placed:
    """Finds jobs in Redis, and what Postgres knows of them.

    Both stores go on meanwhile: a job that moves while it is looked for may be told or not.
    """

    def __init__(self, view: View, search: Search) -> None:
        self._view = view
        self._search = search

    def jobs(self, which: JobFilter, *, rows_only: bool = False) -> Iterator[JobLine]:
        """The jobs that fit: those of a queue in the order in which they start, or by their due time.

        Args:
            rows_only: leave out those that were put there directly.
        """
        for queue in [which.queue] if which.queue is not None else sorted(self._view.queues()):
            for ids in self._view.ids(queue, which.where or "waiting"):
                yield from self._fitting(which, queue, ids, rows_only=rows_only)

    def _fitting(self, which: JobFilter, queue: str, ids: list[bytes], *, rows_only: bool) -> Generator[JobLine]:
        wanted = [UUID(bytes=each) for each in ids]
        fits = self._search.fitting(wanted, which)
        lines = {line.id: line for line in self._search.lines([each for each in wanted if each in fits])}
        rest = [each.bytes for each in wanted if each not in fits]
        direct = {} if rows_only or not rest else self._view.direct(queue, rest)
        for job_id in wanted:
            envelope = direct.get(job_id.bytes)
            if job_id in lines:
                yield lines[job_id]
            elif envelope is not None and which.fits(envelope, self._search.began):
                yield _line(job_id, queue, envelope)


def _line(job_id: UUID, queue: str, envelope: Envelope) -> JobLine:
    staged = None if envelope.staged_at is None else datetime.fromtimestamp(envelope.staged_at / 1e6, UTC)
    return JobLine(job_id, envelope.job, queue, "direct", 0, envelope.tenant_id, staged, None, None)
