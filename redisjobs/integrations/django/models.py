"""The tables of redisjobs as Django reads them. Unmanaged: `manage.py redisjobs migrate` makes and changes them.

None of them shows a job's arguments.
"""

from __future__ import annotations

from typing import Any

from django.db import models

from redisjobs.integrations.django.configuration import configured, first_alias

_CONFIGURATION = configured(first_alias())


def _table(name: str) -> str:
    return f'"{_CONFIGURATION.schema}"."{name}"'


class InDatabase(models.Manager[Any]):
    """Asks the database that holds the outbox."""

    def get_queryset(self) -> models.QuerySet[Any]:
        """Its rows."""
        return super().get_queryset().using(_CONFIGURATION.database)


class Row(models.Model):
    """What each of the tables has."""

    id: models.UUIDField[Any, Any] = models.UUIDField(primary_key=True)
    job: models.TextField[Any, Any] = models.TextField()
    queue: models.TextField[Any, Any] = models.TextField()
    attempts: models.IntegerField[Any, Any] = models.IntegerField()
    redrives: models.IntegerField[Any, Any] = models.IntegerField()
    tenant_id: models.TextField[Any, Any] = models.TextField(null=True)
    staged_at: models.DateTimeField[Any, Any] = models.DateTimeField(null=True)
    idempotency_key: models.TextField[Any, Any] = models.TextField(null=True)

    objects = InDatabase()

    class Meta:
        abstract = True
        managed = False

    def __str__(self) -> str:
        return f"{self.job} {self.pk}"


class LiveJob(Row):
    """A job that has not ended."""

    state: models.TextField[Any, Any] = models.TextField()
    priority: models.SmallIntegerField[Any, Any] = models.SmallIntegerField()
    max_attempts: models.IntegerField[Any, Any] = models.IntegerField(null=True)
    run_at: models.DateTimeField[Any, Any] = models.DateTimeField(null=True)
    expires_at: models.DateTimeField[Any, Any] = models.DateTimeField(null=True)
    published_at: models.DateTimeField[Any, Any] = models.DateTimeField(null=True)
    cancel_requested: models.BooleanField[Any, Any] = models.BooleanField()
    enqueued_by: models.TextField[Any, Any] = models.TextField(null=True)
    last_error: models.TextField[Any, Any] = models.TextField(null=True)
    failures: models.JSONField[Any, Any] = models.JSONField(null=True)

    class Meta(Row.Meta):
        db_table = _table("outbox")
        ordering = ("-staged_at", "id")
        verbose_name = "live job"
        default_permissions = ("view", "change")


class DeadLetter(Row):
    """A job that failed for good."""

    priority: models.SmallIntegerField[Any, Any] = models.SmallIntegerField()
    max_attempts: models.IntegerField[Any, Any] = models.IntegerField(null=True)
    enqueued_by: models.TextField[Any, Any] = models.TextField(null=True)
    reason: models.TextField[Any, Any] = models.TextField()
    failures: models.JSONField[Any, Any] = models.JSONField(null=True)
    died_at: models.DateTimeField[Any, Any] = models.DateTimeField()

    class Meta(Row.Meta):
        db_table = _table("dead")
        ordering = ("-died_at", "id")
        verbose_name = "dead letter"
        default_permissions = ("view", "change")


class FinishedJob(Row):
    """A job that ended otherwise, as long as it is kept."""

    state: models.TextField[Any, Any] = models.TextField()
    finished_at: models.DateTimeField[Any, Any] = models.DateTimeField()
    keep_until: models.DateTimeField[Any, Any] = models.DateTimeField()
    duplicate_of: models.UUIDField[Any, Any] = models.UUIDField(null=True)
    last_error: models.TextField[Any, Any] = models.TextField(null=True)

    class Meta(Row.Meta):
        db_table = _table("finished")
        ordering = ("-finished_at", "id")
        verbose_name = "finished job"
        default_permissions = ("view",)
