"""The Django app: its models are views of the tables of redisjobs, which `manage.py redisjobs migrate` makes."""

from __future__ import annotations

from django.apps import AppConfig


class RedisjobsConfig(AppConfig):
    """`"redisjobs.integrations.django"` in INSTALLED_APPS."""

    name = "redisjobs.integrations.django"
    label = "redisjobs"
    verbose_name = "Jobs"
