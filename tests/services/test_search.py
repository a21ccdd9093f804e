"""Finding jobs by what is known of them: right, in bounded looks, and page by page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from redisjobs.base import statements
from redisjobs.search import JobFilter, Search
from redisjobs.search import walks as walks_module
from tests.support.builders import Conn, stage
from tests.support.stores import Databases

MANY, ENDED = 200_000, 20_000
SHORT = 60_000
"""Rows that one statement may look at, with some more for what the planner estimates."""


@pytest.fixture(scope="module")
def full_url(databases: Databases) -> Iterator[str]:
    """A database with 200 000 live jobs, 20 000 finished ones and 20 000 dead letters, never analyzed."""
    url = databases.migrated()
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("ALTER TABLE redisjobs.outbox SET (autovacuum_enabled = off)")
        conn.execute("SET synchronous_commit = off")
        conn.execute(
            """INSERT INTO redisjobs.outbox (id, job, queue, input, tenant_id, state, staged_at, last_error)
               SELECT (lpad(to_hex(1700000000000 + n), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid,
                      'job' || n %% 10, CASE WHEN n %% 1000 = 0 THEN 'rare' ELSE 'q' || n %% 5 END, '{}', 't' || n %% 7,
                      CASE WHEN n %% 100 = 0 THEN 'retrying' ELSE 'published' END,
                      to_timestamp(1700000000 + n / 1000.0), CASE WHEN n %% 100 = 0 THEN 'TimeoutError: oh' END
               FROM generate_series(1, %(many)s) n""",
            {"many": MANY},
        )
        conn.execute(
            """INSERT INTO redisjobs.finished (id, job, queue, state, staged_at, keep_until)
               SELECT redisjobs.new_id(), 'job', 'q', 'done', now(), now() + interval '1 h'
               FROM generate_series(1, %(many)s) n""",
            {"many": ENDED},
        )
        conn.execute(
            """INSERT INTO redisjobs.dead (id, job, queue, input, reason, died_at)
               SELECT redisjobs.new_id(), 'job' || n %% 10, 'q', '{}', 'why ' || n,
                      '2026-01-01'::timestamptz + n * interval '1 s'
               FROM generate_series(1, %(many)s) n""",
            {"many": ENDED},
        )
    yield url
    databases.drop(url)


def looked_at(plan: dict[str, Any]) -> int:
    """The most rows that any node of a plan read, those included that a filter threw away."""
    rows = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    return max([int(rows), *(looked_at(each) for each in plan.get("Plans", ()))])


def scans(plan: dict[str, Any]) -> set[str]:
    return {plan["Node Type"]}.union(*(scans(each) for each in plan.get("Plans", ())))


@pytest.mark.parametrize(
    "which",
    [
        JobFilter(),
        JobFilter(queue="nowhere", error="no such"),
        JobFilter(states=["retrying"], tenant="t1"),
        JobFilter(older_s=60, key="k"),
    ],
    ids=["all", "nothing", "state and tenant", "age and key"],
)
def test_no_statement_looks_at_more_than_a_stretch(full_url: str, which: JobFilter, monkeypatch: pytest.MonkeyPatch):
    plans: list[Any] = []

    def explained(self: Search, what: str, statement: bytes, parameters: dict[str, Any]) -> list[Any]:
        with self._connection.transaction():
            self._connection.execute(self._sql.plans)
            told = self._connection.execute(b"EXPLAIN (ANALYZE, FORMAT JSON) " + statement, parameters).fetchone()
            assert told is not None
            plans.append(told[0][0]["Plan"])
            return self._connection.execute(statement, parameters, binary=True).fetchall()

    with Search(full_url) as search:
        monkeypatch.setattr(Search, "_rows", explained)
        found = list(search.jobs(which))
        assert len(found) == len(set(found))
        list(search.deaths(which))

    assert len(plans) > 10
    assert max(map(looked_at, plans)) <= SHORT
    assert not {"Seq Scan", "Bitmap Heap Scan"}.intersection(*map(scans, plans))


def test_the_lines_of_a_page_are_looked_up_by_id(full_url: str):
    ids = [UUID(int=each) for each in range(50)]
    with psycopg.connect(full_url, autocommit=True) as conn:
        text = b"EXPLAIN (FORMAT JSON) " + statements.load("search").lines
        with conn.transaction():
            conn.execute(statements.load("search").plans)
            told = conn.execute(text, {"ids": ids}).fetchone()
    assert told is not None
    assert "Seq Scan" not in scans(told[0][0]["Plan"])


def test_among_many_all_that_fit_are_found_and_only_those(full_url: str):
    with Search(full_url) as search:
        rare = list(search.jobs(JobFilter(queue="rare")))
        failing = sum(1 for _ in search.jobs(JobFilter(states=["retrying"], error="timeouterror")))
        every = sum(1 for _ in search.jobs(JobFilter()))
        assert (search.count_jobs(JobFilter()), search.count_jobs(JobFilter(queue="rare"))) == (every, len(rare))
        assert search.count_live(JobFilter(states=["retrying"])) == MANY // 100
        assert search.count_deaths(JobFilter(job="job3")) == ENDED // 10
        died = [search.lines([job])[0].error for _, job in search.deaths(JobFilter(job="job3", error="why 77"))]

    assert len(rare) == MANY // 1000
    assert rare == sorted(rare, reverse=True)
    assert (failing, every) == (MANY // 100, MANY + 2 * ENDED)
    assert died == [f"why {n}" for n in range(1, ENDED + 1) if n % 10 == 3 and f"{n}".startswith("77")]


def test_pages_of_a_list_leave_nothing_out_and_repeat_nothing(full_url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(walks_module, "FIRST_STRETCH", 7)
    which = JobFilter(job="job0", states=["published"], queue="rare")
    with Search(full_url) as search:
        assert list(search.jobs(which)) == []
        which = JobFilter(states=["retrying"], queue="rare")
        whole = list(search.jobs(which))
        pages, after = list[UUID](), None
        while page := [each for each, _ in zip(search.jobs(which, after=after, page=30), range(30), strict=False)]:
            pages += page
            after = page[-1]
    assert pages == whole
    assert len(whole) == MANY // 1000


def test_pages_of_dead_letters_leave_nothing_out_and_repeat_nothing(full_url: str):
    which = JobFilter(job="job3", error="why 77")
    with Search(full_url) as search:
        whole = [each.id for each in search.dead_letters(which, 10_000)]
        first = search.dead_letters(which, 4)
        second = search.dead_letters(which, 10_000, after=search.place_of(first[-1].id))
    assert [each.id for each in [*first, *second]] == whole
    assert [each.died_at for each in first] == sorted((each.died_at for each in first), reverse=True)


def test_ages_count_from_the_beginning_of_the_command(conn: Conn, database_url: str):
    old, young = stage(conn), stage(conn)
    conn.execute("UPDATE redisjobs.outbox SET staged_at = now() - interval '2 h' WHERE id = %s", [old])
    conn.execute(
        "INSERT INTO redisjobs.dead (id, job, queue, reason, staged_at, died_at)"
        " VALUES (gen_random_uuid(), 'a', 'q', 'old', now() - interval '3 days', now() - interval '1 day')"
    )
    conn.commit()

    with Search(database_url) as search:
        assert list(search.live(JobFilter(older_s=3600))) == [old]
        assert list(search.live(JobFilter(newer_s=3600))) == [young]
        assert len(list(search.jobs(JobFilter(older_s=3600, newer_s=4 * 86_400)))) == 2
        assert len(list(search.deaths(JobFilter(newer_s=2 * 86_400)))) == 1
        assert list(search.deaths(JobFilter(newer_s=3600))) == []


def test_what_dies_after_the_beginning_is_left_alone(conn: Conn, database_url: str):
    insert = "INSERT INTO redisjobs.dead (id, job, queue, reason) VALUES (gen_random_uuid(), 'a', 'q', 'why')"
    conn.execute(insert)
    conn.commit()
    with Search(database_url) as search:
        conn.execute(insert)
        conn.commit()
        assert len(list(search.deaths(JobFilter()))) == 1


def test_a_dead_letter_is_found_by_what_failed_last(conn: Conn, database_url: str):
    failures = json.dumps([{"type": "KeyError", "message": "first"}, {"type": "OSError", "message": "last"}])
    conn.execute(
        "INSERT INTO redisjobs.dead (id, job, queue, reason, failures, idempotency_key, tenant_id)"
        " VALUES (gen_random_uuid(), 'a', 'q', 'attempt 2 of 2 failed', %s, 'k', 't')",
        [failures],
    )
    conn.commit()
    with Search(database_url) as search:
        found = [
            len(list(search.deaths(JobFilter(error=text)))) for text in ("oserror: LAST", "attempt 2", "KeyError", "%")
        ]
        assert found == [1, 1, 0, 0]
        assert len(list(search.deaths(JobFilter(key="k", tenant="t")))) == 1
        assert list(search.deaths(JobFilter(key="K"))) == []
