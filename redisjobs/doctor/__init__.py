"""Is this set-up sound? Facts from environment, Postgres, Redis and queues, and small pure checks over them."""

from __future__ import annotations

from redisjobs.doctor.examination import CHECKS, examine
from redisjobs.doctor.finding import Finding, Level
from redisjobs.doctor.of_settings import Given

__all__ = ["CHECKS", "Finding", "Given", "Level", "examine"]
