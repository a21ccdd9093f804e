"""What a role tells about itself to those who watch it: health, readiness, metrics. Nothing here when nobody asked."""

from redisjobs.monitoring.monitor import Monitor

__all__ = ["Monitor"]
