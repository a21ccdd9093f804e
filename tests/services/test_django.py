"""Django's Tasks on redisjobs, up to the commit: the open transaction, the settings, the admin, the command."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from psycopg.rows import dict_row

from tests.support import django_site, django_tasks

from django.contrib.auth.models import Group, Permission, User  # isort: skip  # set up by the line above
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.test import Client, override_settings
from django.utils import timezone

from redisjobs import ConfigurationError, EnqueueError
from redisjobs.integrations.django import TasksBackend, app_of
from redisjobs.integrations.django.discovery import discover
from redisjobs.integrations.django.framework import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
)
from redisjobs.testing import capture
from tests.support.stores import Databases

READY = TaskResultStatus.READY


@pytest.fixture(scope="module")
def database_url(databases: Databases) -> Iterator[str]:
    """One for all tests here: Django's own tables take a second to make."""
    url = databases.migrated()
    django_site.use("default", url)
    call_command("migrate", verbosity=0)
    yield url
    connections.close_all()
    databases.drop(url)


@pytest.fixture(autouse=True)
def clean(database_url: str, redis_url: str) -> Iterator[None]:
    django_site.use_stores(database_url, redis_url)
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE redisjobs.outbox, redisjobs.dead, redisjobs.finished, redisjobs.queues")
    Group.objects.all().delete()
    yield
    connections.close_all()


def rows(table: str = "outbox") -> list[dict[str, Any]]:
    """What others can see."""
    with psycopg.connect(app_of().settings.need_database_url()) as conn, conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(f"SELECT * FROM redisjobs.{table}".encode()).fetchall()


# -- enqueuing
def test_a_test_sees_what_its_open_transaction_has_kept():
    with capture(app_of()) as enqueued, transaction.atomic():
        kept = django_tasks.double.enqueue(1)
        with contextlib.suppress(ZeroDivisionError), transaction.atomic():
            django_tasks.double.enqueue(2)
            raise ZeroDivisionError
        assert [each.id for each in enqueued()] == [kept.id]
        transaction.set_rollback(True)

    assert enqueued() == []


def test_a_task_is_enqueued_with_the_commit_of_the_open_transaction_and_not_before():
    with transaction.atomic():
        Group.objects.create(name="made together")
        result = django_tasks.double.enqueue(21)
        assert rows() == []

    [row] = rows()
    assert str(row["id"]) == result.id
    assert (row["job"], row["queue"]) == ("tests.support.django_tasks.double", "default")
    assert row["input"] == {"args": [21], "kwargs": {}}
    assert (result.status, result.is_finished, result.args, result.kwargs) == (READY, False, [21], {})


def test_a_transaction_and_a_savepoint_take_back_what_was_enqueued_in_them():
    with contextlib.suppress(ZeroDivisionError), transaction.atomic():
        django_tasks.double.enqueue(1)
        raise ZeroDivisionError
    with transaction.atomic():
        django_tasks.double.enqueue(2)
        with contextlib.suppress(ZeroDivisionError), transaction.atomic():
            django_tasks.double.enqueue(3)
            raise ZeroDivisionError
        django_tasks.double.enqueue(4)

    assert sorted(row["input"]["args"] for row in rows()) == [[2], [4]]


def test_outside_of_a_transaction_it_commits_by_itself():
    django_tasks.double.enqueue(number=1)

    assert [row["input"] for row in rows()] == [{"args": [], "kwargs": {"number": 1}}]


async def test_aenqueue_joins_the_transaction_of_the_thread_that_has_djangos_connections():
    result = await django_tasks.double.aenqueue(1)

    assert [str(row["id"]) for row in rows()] == [result.id]
    assert (await django_tasks.double.aget_result(result.id)).status == READY
    await sync_to_async(connections.close_all)()


def test_the_options_of_a_call_stand_in_its_row():
    at = timezone.now() + timedelta(days=1)
    using = django_tasks.double.using(
        priority=5, queue_name="mail", run_after=at, idempotency_key="k", window=60, tenant="t", headers={"a": 1},
        max_attempts=3, expires=timedelta(days=2),
    )  # fmt: skip

    using.enqueue(1)

    [row] = rows()
    assert (row["priority"], row["queue"], row["run_at"], row["idempotency_key"]) == (5, "mail", at, "k")
    assert (row["tenant_id"], row["headers"], row["max_attempts"]) == ("t", {"a": 1}, 3)
    assert row["key_window"] == timedelta(seconds=60)
    assert row["expires_at"] > at


def test_what_does_not_fit_is_refused_and_leaves_the_transaction_usable():
    with transaction.atomic():
        with pytest.raises(TypeError, match=r"double.*too many"):
            django_tasks.double.enqueue(1, 2)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="Unsupported type"):
            django_tasks.double.enqueue(object())  # type: ignore[arg-type]
        with pytest.raises(InvalidTask, match="idempotency_key"):
            django_tasks.double.using(idempotency_key="k" * 600).enqueue(1)
        with pytest.raises(InvalidTask, match="no queue name"):
            django_tasks.double.using(queue_name="two words")
        with pytest.raises(InvalidTask, match="priority"):
            django_tasks.double.using(priority=101)
        with pytest.raises(InvalidTask, match="not valid for backend"):
            django_tasks.far_away.using(queue_name="mail")
        assert Group.objects.count() == 0

    assert rows() == []


def test_a_job_of_the_app_and_plain_calls_go_over_djangos_connection_too():
    job = django_tasks.counted
    with transaction.atomic():
        handle = job.enqueue(connection)
        app_of().enqueue(connections["default"], [job.call() for _ in range(3)])
        assert app_of().cancel(connection, handle.id) == "requested"

    assert [row["cancel_requested"] for row in sorted(rows(), key=lambda row: row["seq"])] == [
        True,
        False,
        False,
        False,
    ]
    with transaction.atomic(), pytest.raises(EnqueueError, match="enqueued before"), transaction.atomic():
        call = job.call()
        app_of().enqueue(connection, call)
        app_of().enqueue(connection, call)
    with pytest.raises(ConfigurationError, match=r"'lite' of Django is sqlite.*postgresql"):
        job.enqueue(connections["lite"])


def test_the_outbox_is_in_the_database_that_the_backend_names(databases: Databases):
    url = databases.migrated()
    django_site.use("jobs", url)
    try:
        with transaction.atomic(using="jobs"):
            result = django_tasks.far_away.enqueue()
            with transaction.atomic():
                django_tasks.double.enqueue(1)
        assert [row["job"].rpartition(".")[2] for row in rows()] == ["double"]
        assert django_tasks.far_away.get_result(result.id).status == READY
        with pytest.raises(TaskResultDoesNotExist):
            task_backends["default"].get_result(result.id)
    finally:
        connections["jobs"].close()
        databases.drop(url)


def test_a_worker_of_a_backend_knows_the_tasks_of_the_others_too():
    far_app = app_of("elsewhere")
    discover(far_app)

    assert django_tasks.third_time.module_path in far_app.jobs
    assert django_tasks.fail.module_path not in far_app.jobs, "its queue is not among the QUEUES of that backend"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"databse": "default"}, "databse is no option.*database, imports"),
        ({"database": "nowhere"}, "nowhere.*not in DATABASES"),
        ({"database": "lite"}, "lite.*sqlite.*Postgres"),
        ({"schema": "pg_jobs"}, "schema"),
    ],
)
def test_a_wrong_option_of_the_backend_is_told_where_it_stands(options: dict[str, str], said: str):
    tasks = {"default": {"BACKEND": django_site.BACKEND, "OPTIONS": options}}

    with override_settings(TASKS=tasks), pytest.raises(ImproperlyConfigured, match=said):
        task_backends["default"]


def test_checks_are_clean_and_name_a_missing_app(database_url: str):
    call_command("check", verbosity=0)
    backend = task_backends["default"]
    assert isinstance(backend, TasksBackend)
    assert backend.check() == []
    with override_settings(INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"]):
        assert [each.id for each in backend.check()] == ["redisjobs.W001"]


def test_no_migration_is_missing():
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)


def test_results_of_others_are_not_told():
    handle = django_tasks.counted.enqueue(connection)
    double = django_tasks.double.enqueue(1)
    for unknown in (handle.id, "0197a5b0-0000-7000-8000-000000000000", "no id", ""):
        with pytest.raises(TaskResultDoesNotExist):
            django_tasks.double.get_result(unknown)

    with pytest.raises(Exception, match="does not match"):
        django_tasks.fail.get_result(double.id)


@pytest.fixture
def client() -> Client:
    user = User.objects.filter(username="root").first() or User.objects.create_superuser("root")
    made = Client()
    made.force_login(user)
    return made


def test_the_admin_lists_jobs_without_their_arguments_and_cancels(client: Client):
    result = django_tasks.third_time.enqueue("marker")

    page = client.get("/admin/redisjobs/livejob/").content.decode()
    detail = client.get(f"/admin/redisjobs/livejob/{result.id}/change/").content.decode()
    assert result.id in page
    assert "third_time" in detail
    assert "marker" not in page + detail
    assert client.get("/admin/redisjobs/livejob/add/").status_code == 403

    done = client.post("/admin/redisjobs/livejob/", {"action": "cancel", "_selected_action": [result.id]}, follow=True)

    assert "1 job is asked to end" in done.content.decode()
    assert [row["cancel_requested"] for row in rows()] == [True]


def test_who_may_only_look_has_no_actions():
    viewer = User.objects.filter(username="viewer").first() or User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.set(_permissions("view_livejob"))
    client = Client()
    client.force_login(viewer)
    result = django_tasks.double.enqueue(1)

    assert result.id in client.get("/admin/redisjobs/livejob/").content.decode()
    client.post("/admin/redisjobs/livejob/", {"action": "cancel", "_selected_action": [result.id]})

    assert [row["cancel_requested"] for row in rows()] == [False]


def _permissions(*names: str) -> Any:
    return Permission.objects.filter(codename__in=names, content_type__app_label="redisjobs")


# -- the command
def test_every_command_that_it_names_goes_through_manage_py(capsys: pytest.CaptureFixture[str]):
    job = django_tasks.double.enqueue(1).id
    with connection.cursor() as cursor:
        cursor.execute("UPDATE redisjobs.outbox SET state = 'set_aside'")
    django_tasks.double.enqueue(2)

    for words in (["status"], ["doctor"], ["doctor", "--json"], ["explain", job], ["explain", job, "--json"],
                  ["dead", "show", job], ["queues", "pause", "unheard"], ["outbox", "put-back", job]):  # fmt: skip
        with contextlib.suppress(SystemExit):
            call_command("redisjobs", *words)
    told = capsys.readouterr()
    said = told.out + told.err

    assert "start one with: python manage.py redisjobs relay" in said
    assert f"python manage.py redisjobs outbox put-back {job}" in said
    assert "`python manage.py redisjobs jobs show ID` says where it is" in said
    bare = re.findall(r"(?<!manage\.py )redisjobs (?:relay|worker|migrate|jobs|dead|outbox|queues|doctor)\b.*", said)
    assert bare == []


def test_without_the_tables_enqueue_names_the_command_of_the_project():
    with connection.cursor() as cursor:
        cursor.execute("ALTER SCHEMA redisjobs RENAME TO away")
    try:
        with pytest.raises(ConfigurationError, match=r"run `python manage\.py redisjobs migrate`"):
            django_tasks.double.enqueue(1)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER SCHEMA away RENAME TO redisjobs")


def test_the_command_works_on_the_stores_of_the_settings(capsys: pytest.CaptureFixture[str]):
    django_tasks.double.enqueue(1)

    call_command("redisjobs", "migrate", "--check")
    call_command("redisjobs", "jobs", "list", "--json")
    assert '"job": "tests.support.django_tasks.double"' in capsys.readouterr().out

    with pytest.raises(CommandError, match="TASKS has no 'nowhere': pass one of default, elsewhere"):
        call_command("redisjobs", "--tasks", "nowhere", "status")
    with pytest.raises(SystemExit) as ended:
        call_command("redisjobs", "jobs", "show", "no-id")
    assert ended.value.code == 2
