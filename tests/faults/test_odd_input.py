"""Bad input of every kind: a clear refusal at the call, or a dead letter with its reason; nothing is lost, and nothing
behind it stops (cases F04, F05, K01, K03, K04, K05, K07, K08).
"""  # fmt: skip

from __future__ import annotations

import json
import pickle
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from redisjobs import App, ArgumentsError, Context, EncodeError, Job, JobFailed, OptionError
from tests.stories.road import Road
from tests.support.eventually import eventually

GOOD = 20


@pytest.fixture
async def road(database_url: str, redis_url: str) -> AsyncIterator[Road]:
    async with Road(database_url, redis_url) as made:
        yield made


def taker(app: App, seen: list[Any], **options: Any) -> Job[..., Any]:
    """A job that takes anything, and notes it."""

    async def take(value: Any = None) -> Any:
        seen.append(value)
        return value

    declared: Any = {"max_attempts": 2, "retry": [0], "result_ttl": 60} | options
    return app.declare(take, declared)


# -- refused at the call


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"deep": [1, float("nan")]}, "value.deep[1]"),
        ([float("inf")], "value[0]"),
        ({"a": {"b": "x\udc7f"}}, "value.a.b"),
        ({"\udc7f": 1}, "value"),
        (object(), "value"),
        ([print], "value[0]"),
        ({"x" * 10: "y" * 2 * 2**20}, ""),
    ],
    ids=["NaN", "infinity", "a lone surrogate", "one in a key", "an object", "a function", "2 MiB"],
)
async def test_what_cannot_travel_is_refused_by_its_path_and_the_business_row_stays(road: Road, value: Any, path: str):
    take = taker(road.app, road.seen)
    road.query("CREATE TABLE orders (id int)")
    with road.connect() as connection:
        connection.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(EncodeError) as refused:
            take.enqueue(connection, value=value)
        connection.execute("INSERT INTO orders VALUES (2)")

    assert refused.value.path.startswith(path)
    assert len(str(refused.value)) < 1000
    assert road.query("SELECT count(*) FROM orders") == [(2,)]
    assert road.query("SELECT count(*) FROM redisjobs.outbox") == [(0,)]


@pytest.mark.parametrize("arguments", [{"valu": 1}, {"value": 1, "more": 2}])
async def test_arguments_that_do_not_fit_are_refused_at_the_call(road: Road, arguments: dict[str, Any]):
    take = taker(road.app, road.seen)
    with road.connect() as connection, pytest.raises(ArgumentsError, match="take"):
        take.enqueue(connection, **arguments)


@pytest.mark.parametrize("name", ["", " ", "a b", "é", "x" * 129, "a\0b", "\udc7f", "{x}", "a'b", None, 7, b"q"])
async def test_a_queue_name_that_no_store_takes_is_refused_before_sql(road: Road, name: Any):
    take = taker(road.app, road.seen)
    if name is None:
        assert take.using(queue=None).call().queue == "default"
        return
    with pytest.raises(OptionError, match="queue"):
        take.using(queue=name)
    with pytest.raises(OptionError, match="queue"):
        road.app.job(queue=name)(print)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\0b", "\udc7f", "x" * 201, 5])
async def test_a_job_name_that_no_store_takes_is_refused_where_it_is_declared(road: Road, name: Any):
    with pytest.raises(OptionError, match="name"):
        road.app.job(name=name)(print)


async def test_a_result_that_cannot_travel_is_a_dead_letter_that_says_so(road: Road):
    @road.app.job(result_ttl=60)
    async def answer(which: int) -> Any:
        return [float("nan"), "x\udc7f", object(), "y" * 2 * 2**20][which]

    await road.work()
    with road.connect() as connection:
        handles = [answer.enqueue(connection, which=which) for which in range(4)]
    await road.reaches("dead", *handles)
    for handle in handles:
        with pytest.raises(JobFailed):
            await handle.result(timeout=5)
    assert {reason for (reason,) in road.query("SELECT reason FROM redisjobs.dead")} == {
        "its body ended well, but its result cannot be kept"
    }


# -- taken, and arrives


@pytest.mark.parametrize(
    "value",
    ["a\0b", {"\0": "\0"}, "x" * 7_900, "x" * 8_100, "é" * 4_000, "x" * 1_000_000, "", " ", "'; DROP TABLE --",
     "%s %(a)s"],
    ids=["NUL", "NUL in a key", "7900 B", "8100 B", "4000 é", "1 MB", "empty", "blank", "SQL", "placeholders"],
)  # fmt: skip
async def test_what_is_odd_but_can_travel_arrives_exactly(road: Road, value: Any):
    take = taker(road.app, road.seen)
    await road.work()
    with road.connect() as connection:
        handle = take.enqueue(connection, value=value)
    assert await handle.result(timeout=10) == value
    assert road.seen == [value]


@pytest.mark.parametrize("name", ["é" * 200, "'" * 200, '"quoted" \\ %s $1', "☃ {a} \U0001f600", "a" * 200])
async def test_names_of_many_bytes_and_quotes_run(road: Road, name: str):
    taker(road.app, road.seen, name=name)
    await road.work(queues=["q" * 128])
    with road.connect() as connection:
        handle = road.app.jobs[name].using(queue="q" * 128, idempotency_key="'é\"").enqueue(connection, value=name)
    await road.reaches("done", handle)
    assert road.seen == [name]


# -- rows that others write


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"queue": None}, errors.NotNullViolation),
        ({"queue": "''"}, errors.CheckViolation),
        ({"queue": "repeat('q', 300)"}, errors.CheckViolation),
        ({"job": "NULL"}, errors.NotNullViolation),
        ({"job": "''"}, errors.CheckViolation),
        ({"job": "repeat('j', 300)"}, errors.CheckViolation),
        ({"job": "E'a\\nb'"}, errors.CheckViolation),
        ({"run_at": "'infinity'"}, errors.CheckViolation),
        ({"expires_at": "'-infinity'"}, errors.CheckViolation),
        ({"run_at": "'0044-03-15 BC'"}, errors.CheckViolation),
        ({"run_at": "'9999-01-01 00:00:00+00'"}, errors.CheckViolation),
        ({"expires_at": "'200000-01-01'"}, errors.CheckViolation),
        ({"input": """'"x"'"""}, errors.CheckViolation),
        ({"input": "'5'"}, errors.CheckViolation),
        ({"input": "'null'"}, errors.CheckViolation),
        ({"input": "'{broken'"}, errors.InvalidTextRepresentation),
        ({"input": "NULL"}, errors.CheckViolation),
        ({"input": "json_build_object('x', repeat('y', 2000000))"}, errors.CheckViolation),
        ({"payload": "''"}, errors.CheckViolation),
        ({"codec": "'json'"}, errors.CheckViolation),
        ({"priority": "101"}, errors.CheckViolation),
        ({"max_attempts": "0"}, errors.CheckViolation),
        ({"idempotency_key": "''"}, errors.CheckViolation),
        ({"key_window": "'1 hour'"}, errors.CheckViolation),
        ({"headers": "'[]'"}, errors.CheckViolation),
        ({"traceparent": "'00-xyz'"}, errors.CheckViolation),
    ],
    ids=str,
)
async def test_a_row_that_could_not_be_published_is_refused_by_the_table(
    database_url: str, columns: dict[str, str | None], error: type[Exception]
):
    values = {"job": "'take'", "input": "'{}'", **columns}
    given = ", ".join("NULL" if value is None else value for value in values.values())
    with psycopg.connect(database_url) as connection, pytest.raises(error):
        connection.execute(f"INSERT INTO redisjobs.outbox ({', '.join(values)}) VALUES ({given})".encode())


ENDS: list[tuple[dict[str, str], str, str | None]] = [
    ({"input": "'{}'", **dict.fromkeys(("idempotency_key", "max_attempts", "run_at", "expires_at", "tenant_id",
      "traceparent", "enqueued_by", "headers", "payload", "codec"), "NULL")}, "done", None),
    ({"input": "'[]'"}, "done", None),
    ({"input": "'[1]'"}, "done", None),
    ({"input": "'[1, 2, 3]'"}, "dead", "attempt 2 of 2 failed"),
    ({"input": """'{"nobody": "knows me"}'"""}, "dead", "attempt 2 of 2 failed"),
    ({"input": """'{"value": "\\u0000 \\ud800"}'"""}, "done", None),
    ({"input": """'{"value": 1, "value": 2}'"""}, "done", None),
    ({"input": """('{"value": ' || repeat('9', 6000) || '}')::json"""}, "dead", "it cannot be read"),
    ({"input": """'{"value": 1e999}'"""}, "done", None),
    ({"input": "(repeat('[', 3000) || repeat(']', 3000))::json"}, "dead", "it cannot be read"),
    ({"input": """'{}'""", "headers": """('{"n": ' || repeat('9', 6000) || '}')::json"""}, "dead", "it cannot be read"),
    ({"input": """'{}'""", "headers": """('{"n": ' || repeat('[', 2500) || repeat(']', 2500) || '}')::json"""}, "dead",
     "it cannot be read"),
    ({"input": """'{}'""", "headers": """'{"n": "\\u0000 \\ud800"}'"""}, "done", None),
    ({"payload": "'{broken'", "codec": "'json'"}, "dead", "it cannot be read"),
    ({"payload": """'{"value": NaN}'""", "codec": "'json'"}, "dead", "it cannot be read"),
    ({"payload": "'\\xfffe'", "codec": "'json'"}, "dead", "it cannot be read"),
    ({"payload": "''", "codec": "'json'"}, "dead", "it cannot be read"),
    ({"payload": "'5'", "codec": "'json'"}, "dead", None),
    ({"payload": "'null'", "codec": "'json'"}, "dead", None),
    ({"payload": "'\\xc1'", "codec": "'msgpack'"}, "dead", "it cannot be read"),
    ({"payload": "decode(repeat('91', 5000), 'hex')", "codec": "'msgpack'"}, "dead", "it cannot be read"),
    ({"payload": "'\\xdfffffffff'", "codec": "'msgpack'"}, "dead", "it cannot be read"),
    ({"payload": "'x'", "codec": "'zstd'"}, "dead", "it cannot be read"),
    ({"payload": "'x'", "codec": "'encrypted'"}, "dead", "it cannot be read"),
    ({"input": "'{}'", "run_at": "'0002-01-01 00:00:00+00'"}, "done", None),
    ({"input": "'{}'", "expires_at": "'9998-12-31 23:59:59.999999+00'"}, "done", None),
    ({"input": "'{}'", "expires_at": "'0002-01-01 00:00:00+00'"}, "expired", None),
    ({"input": "'{}'", "run_at": "'9998-12-31 23:59:59.999999+00'"}, "deferred", None),
    ({"input": "'{}'", "run_at": "'9998-12-31 23:59:59.999999+00'", "idempotency_key": "'k'"}, "published", None),
    ({"input": "'{}'", "idempotency_key": "'k2'", "key_window": "'366 days'"}, "done", None),
    ({"input": "'{}'", "idempotency_key": "'k3'", "key_window": "'-0'"}, "done", None),
]  # fmt: skip


async def test_no_row_that_the_table_takes_stops_what_is_behind_it(road: Road):
    taker(road.app, road.seen, result_ttl=None)
    good = road.app.job(name="good")(lambda: None)
    ids: list[str] = []
    with road.connect() as connection:
        for columns, _, _ in ENDS:
            values = {"job": "'take'", "id": "redisjobs.new_id()", **columns}
            row = connection.execute(
                f"INSERT INTO redisjobs.outbox ({', '.join(values)}) VALUES ({', '.join(values.values())}) "
                "RETURNING id::text".encode()
            ).fetchone()
            assert row is not None
            ids.append(row[0])
    behind = road.commit(*[good.call() for _ in range(GOOD)])
    await road.work(concurrency=3)

    await road.reaches("done", *behind)
    await eventually(lambda: all(road.state(job) not in ("staged", "retrying") for job in ids), "all are somewhere", 20)
    for job, (columns, end, reason) in zip(ids, ENDS, strict=True):
        if end in ("dead", "done", "expired"):
            await road.reaches(end, job)
        found = road.query("SELECT reason, failures FROM redisjobs.dead WHERE id = %(id)s", id=job)
        assert road.state(job) == end, f"{columns}: {road.state(job)} {found}"
        assert reason is None or found[0][0] == reason, f"{columns}: {found}"
        assert end != "dead" or found[0][0], f"{columns}: a letter without a reason"


async def test_a_pickle_in_a_row_is_a_dead_letter_and_runs_no_code(road: Road, tmp_path: Any):
    canary = tmp_path / "canary"

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (open, (str(canary), "w"))

    taker(road.app, road.seen)
    await road.work()
    for codec in ("pickle", "json", "msgpack"):
        road.query("INSERT INTO redisjobs.outbox (job, payload, codec) VALUES ('take', %(p)s, %(c)s)",
                   p=pickle.dumps({"value": Bomb()}), c=codec)  # fmt: skip
    await eventually(lambda: road.query("SELECT count(*) FROM redisjobs.dead") == [(3,)], "all are dead letters")
    assert not canary.exists()
    assert road.seen == []


async def test_odd_headers_reach_the_body_as_they_were_written(road: Road):
    @road.app.job
    async def take(ctx: Context) -> None:
        road.seen.append(ctx.headers)

    await road.work()
    headers = {"n": 10**40, "": [], "☃": {"a": None}, "f": 1.5e300}
    road.query("SELECT redisjobs.enqueue('take', headers => %(headers)s::json)", headers=json.dumps(headers))
    await eventually(lambda: road.seen, "it runs")
    assert road.seen == [headers]
