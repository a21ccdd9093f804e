"""Where a worker finds the app: with Django set up, and every module imported that may declare a task.

Its backend is the one named in REDISJOBS_TASKS, else the first in TASKS that is ours.
"""

from __future__ import annotations

import os

import django
from django.apps import apps

from redisjobs.integrations.django.app import app_of
from redisjobs.integrations.django.discovery import discover

if not apps.ready:
    django.setup()
app = app_of(os.environ.get("REDISJOBS_TASKS"))
discover(app)
