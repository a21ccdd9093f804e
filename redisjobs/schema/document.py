"""The document that describes an app's jobs to producers: JSON Schema of draft 2020-12."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from redisjobs.errors import ConfigurationError
from redisjobs.job import Job
from redisjobs.schema.classes import default, described
from redisjobs.schema.forms import Forms, Json, reference

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Jobs = Mapping[str, Job[Any, Any]]


def export(title: str, jobs: Jobs) -> Json:
    """One document for all jobs. Its root describes a row: which `job`, and for each the `input` it takes.

    The arguments of a job stand in `$defs` under the job's name, beside the classes that they are made of.

    Raises:
        ConfigurationError: there is no job.
    """
    if not jobs:
        raise ConfigurationError(f"app {title!r} declares no job: import the modules that do, in the module of the app")
    forms = Forms(taken=jobs)
    inputs = {name: _input(job, forms) for name, job in sorted(jobs.items())}
    return {
        "$schema": DIALECT,
        "title": f"Jobs of {title}",
        "oneOf": [_row(name, jobs[name]) for name in inputs],
        "$defs": {**inputs, **dict(sorted(forms.defs.items()))},
    }


def export_job(job: Job[Any, Any]) -> Json:
    """A document for the arguments of one job."""
    forms = Forms()
    made = _input(job, forms)
    document = {"$schema": DIALECT, "title": job.name, **made}
    return {**document, "$defs": dict(sorted(forms.defs.items()))} if forms.defs else document


def _row(name: str, job: Job[Any, Any]) -> Json:
    queue: Json = {"type": "string", "default": job.queue}
    priority: Json = {"type": "integer", "default": job.declaration.priority}
    return {
        "type": "object",
        "properties": {"job": {"const": name}, "queue": queue, "priority": priority, "input": reference(name)},
        "required": ["job", "input"],
    }


def _input(job: Job[Any, Any], forms: Forms) -> Json:
    properties: Json = {}
    required: list[str] = []
    others: Json | bool = False
    for each in job.signature.resolved.parameters.values():
        if each.kind is each.VAR_KEYWORD:
            others = forms.of(each.annotation) or True
            continue
        properties[each.name] = forms.of(each.annotation)
        if each.default is inspect.Parameter.empty:
            required.append(each.name)
        else:
            properties[each.name] |= default(each.annotation, each.default)
    made: Json = {"type": "object", "properties": properties}
    if required:
        made["required"] = required
    return described({**made, "additionalProperties": others}, job)
