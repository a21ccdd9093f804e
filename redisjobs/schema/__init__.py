"""JSON Schemas of jobs: what producers in other languages may send, and what of it a new release would not take."""

from redisjobs.schema.changes import Change, compare
from redisjobs.schema.document import export, export_job

__all__ = ["Change", "compare", "export", "export_job"]
