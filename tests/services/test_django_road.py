"""Django's Tasks on redisjobs over the whole road: run by a worker, told as results, shown in the admin."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.support import django_site, django_tasks

from django.contrib.auth.models import Group, User  # isort: skip  # set up by the line above
from django.core.management import call_command
from django.db import connection, connections
from django.test import Client

from redisjobs import App
from redisjobs.integrations.django import app_of
from redisjobs.integrations.django.framework import (
    TaskResultStatus,
    task_enqueued,
    task_finished,
    task_started,
)
from redisjobs.worker import Worker
from tests.stories.road import relaying
from tests.support.eventually import eventually_now
from tests.support.stores import Databases, Stores, emptied_redis

FAILED, SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL


@pytest.fixture(scope="module", autouse=True)
def road(databases: Databases, stores: Stores) -> Iterator[None]:
    """A relay, and a worker for all queues of the project: one for all tests here."""
    url = databases.migrated()
    django_site.use("default", url)
    call_command("migrate", verbosity=0)
    with emptied_redis(stores.redis_url, stores.prefix):
        django_site.use_stores(url, stores.redis_url)
        with relaying(url, stores.redis_url), working(app_of()):
            yield
    connections.close_all()
    databases.drop(url)


@pytest.fixture(autouse=True)
def close_connections() -> Iterator[None]:
    yield
    Group.objects.all().delete()
    connections.close_all()


@contextlib.contextmanager
def working(app: App) -> Iterator[None]:
    """A worker in a thread of its own, where Django forbids no blocking call."""
    running, enough = Future[asyncio.AbstractEventLoop](), asyncio.Event()

    async def work() -> None:
        worker = Worker(app, queues=["default", "mail"], visibility_timeout=30, drain_on_shutdown=False)
        await worker.start()
        running.set_result(asyncio.get_running_loop())
        await enough.wait()
        await worker.stop(5)

    with ThreadPoolExecutor(1, "worker") as threads:
        ended = threads.submit(asyncio.run, work())
        loop = running.result(10)
        try:
            yield
        finally:
            loop.call_soon_threadsafe(enough.set)
            ended.result(20)


def finished(result: Any) -> Any:
    """The result, once it is there."""

    def is_finished() -> bool:
        result.refresh()
        return bool(result.is_finished)

    eventually_now(is_finished, f"task {result.id} has ended", within=15)
    return result


def test_a_task_runs_in_the_worker_and_its_result_comes_back():
    result = finished(django_tasks.double.enqueue(number=21))

    assert (result.status, result.return_value, result.attempts, result.errors) == (SUCCESSFUL, 42, 1, [])
    assert result.enqueued_at < result.started_at <= result.last_attempted_at < result.finished_at
    found = django_tasks.double.get_result(result.id)
    assert (found.args, found.kwargs, found.task.func) == ([], {"number": 21}, django_tasks.double.func)


def test_a_task_that_fails_is_tried_again_and_its_last_failure_is_the_end():
    ends: list[Any] = []
    task_finished.connect(keep := lambda task_result, **_: ends.append(task_result.status), weak=False)

    result = finished(django_tasks.fail.enqueue("no", "such", name="key"))

    task_finished.disconnect(keep)
    assert (result.status, result.attempts, ends) == (FAILED, 2, [FAILED])
    assert (result.args, result.kwargs) == (["no", "such"], {"name": "key"})
    assert [each.exception_class for each in result.errors] == [LookupError, LookupError]
    assert result.errors[0].traceback.rstrip().endswith("LookupError: no such key")
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


def test_a_context_counts_attempts_and_names_the_task():
    result = finished(django_tasks.third_time.enqueue("well"))

    assert result.return_value == f"well, attempt 3 of {result.id}"
    assert result.attempts == 3


def test_an_async_task_uses_the_orm():
    result = finished(django_tasks.add_group.enqueue("editors"))

    assert result.return_value == "editors by add_group"
    assert Group.objects.get().name == "editors"


def test_what_no_json_can_carry_is_a_failure():
    result = finished(django_tasks.returns_a_function.enqueue())

    assert (result.status, result.errors[0].exception_class) == (FAILED, TypeError)


def test_connections_of_a_workers_threads_are_closed_between_attempts():
    with connection.cursor() as cursor:
        for _ in range(5):
            finished(django_tasks.count_groups.enqueue())

        def are_closed() -> bool:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = ''"
                " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
            return bool(cursor.fetchone() == (0,))

        eventually_now(are_closed, "Postgres has seen that they are closed")


def test_a_producer_in_another_language_names_the_arguments():
    with connection.cursor() as cursor:
        cursor.execute("SELECT redisjobs.enqueue('tests.support.django_tasks.double', '{\"number\": 4}')::text")
        (job_id,) = cursor.fetchone()

    assert finished(django_tasks.double.get_result(job_id)).return_value == 8


def test_djangos_signals_tell_of_each_station():
    told: list[tuple[str, Any]] = []
    signals = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}
    keep = {name: (lambda task_result, name=name, **_: told.append((name, task_result.id))) for name in signals}
    for name, signal in signals.items():
        signal.connect(keep[name], weak=False)

    result = finished(django_tasks.double.enqueue(1))

    for name, signal in signals.items():
        signal.disconnect(keep[name])
    assert told == [(name, result.id) for name in signals]


@pytest.fixture
def client() -> Client:
    user = User.objects.filter(username="root").first() or User.objects.create_superuser("root")
    made = Client()
    made.force_login(user)
    return made


def test_the_admin_shows_dead_letters_and_redrives_them(client: Client):
    result = finished(django_tasks.returns_a_function.enqueue())
    assert "Unsupported type" in client.get("/admin/redisjobs/deadletter/").content.decode()
    assert client.get(f"/admin/redisjobs/deadletter/{result.id}/change/").status_code == 200

    again = {"action": "redrive", "_selected_action": [result.id]}
    done = client.post("/admin/redisjobs/deadletter/", again, follow=True)

    assert "1 dead letter is back" in done.content.decode()
    eventually_now(lambda: _redrives(result.id) == [(1,)], "it died once more")


def test_the_admin_shows_what_ended(client: Client):
    result = finished(django_tasks.double.enqueue(1))

    assert result.id in client.get("/admin/redisjobs/finishedjob/").content.decode()
    assert client.get(f"/admin/redisjobs/finishedjob/{result.id}/change/").status_code == 200


def _redrives(job_id: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT redrives FROM redisjobs.dead WHERE id = %s", [job_id])
        return list(cursor.fetchall())
