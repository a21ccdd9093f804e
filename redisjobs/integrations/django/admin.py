"""Pages in the admin: look at jobs, cancel live ones, give dead letters a new life. Nothing can be edited."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db import connections
from django.db.models import QuerySet
from django.http import HttpRequest

from redisjobs.base import statements
from redisjobs.base.durations import many
from redisjobs.drivers.django import told
from redisjobs.drivers.forms import named
from redisjobs.integrations.django.configuration import configured, first_alias
from redisjobs.integrations.django.models import DeadLetter, FinishedJob, LiveJob

if TYPE_CHECKING:
    _Page = admin.ModelAdmin[Any]
else:
    _Page = admin.ModelAdmin  # not generic when it runs


class Looking(_Page):
    """A list and a page for each row, to look at."""

    list_per_page = 50
    show_full_result_count = False  # a count of all is slow where there are millions
    search_fields = ("=id", "=job", "=tenant_id", "=idempotency_key")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Only a program enqueues."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Rows are not edited."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nor deleted: `redisjobs dead purge` does that."""
        return False

    def may_act(self, request: HttpRequest) -> bool:
        """Whether this user may use the actions of the page: the model's permission to change."""
        user: Any = request.user
        return bool(user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}"))


def _may_act(page: Looking, request: HttpRequest) -> bool:
    return page.may_act(request)


@admin.register(LiveJob)
class LiveJobs(Looking):
    """Jobs that have not ended."""

    list_display = ("id", "job", "queue", "state", "attempts", "tenant_id", "staged_at", "run_at", "cancel_requested")
    list_filter = ("state", "queue")
    actions = ("cancel",)
    has_act_permission: Callable[..., bool] = _may_act

    @admin.action(description="Cancel selected jobs", permissions=["act"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Ask for their end: a waiting job ends at once, a running one within about a second."""
        words = [word for _, word in _ask("cancel_jobs", queryset)]
        asked = words.count("requested")
        told_of = "" if asked == len(words) else f"; {len(words) - asked} had ended already"
        self.message_user(request, f"{many(asked, 'job is', 'jobs are')} asked to end{told_of}.", messages.SUCCESS)


@admin.register(DeadLetter)
class DeadLetters(Looking):
    """Jobs that failed for good."""

    list_display = ("id", "job", "queue", "reason", "last_failure", "attempts", "redrives", "tenant_id", "died_at")
    list_filter = ("queue",)
    actions = ("redrive",)
    has_act_permission: Callable[..., bool] = _may_act

    @admin.display(description="last error")
    def last_failure(self, letter: DeadLetter) -> str:
        """What its last attempt raised."""
        last: Any = letter.failures[-1] if letter.failures else None
        return f"{last['type']}: {last['message']}" if last else ""

    @admin.action(description="Redrive selected dead letters", permissions=["act"])
    def redrive(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Give them a new life: the same id and arguments, fresh attempts."""
        ((count,),) = _ask("redrive_jobs", queryset)
        self.message_user(
            request,
            f"{many(count, 'dead letter is back in its queue', 'dead letters are back in their queues')}.",
            messages.SUCCESS,
        )


@admin.register(FinishedJob)
class FinishedJobs(Looking):
    """Jobs that ended otherwise."""

    list_display = ("id", "job", "queue", "state", "attempts", "tenant_id", "staged_at", "finished_at")
    list_filter = ("state", "queue")


def _ask(name: str, queryset: QuerySet[Any]) -> list[tuple[Any, ...]]:
    configuration = configured(first_alias())
    statement = (statements.load("django", configuration.schema)[name], {"ids": [row.pk for row in queryset]})
    with told(), connections[configuration.database].cursor() as cursor:
        cursor.execute(*named(statement))
        return list(cursor.fetchall())
