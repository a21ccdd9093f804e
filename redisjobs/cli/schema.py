"""`redisjobs schema`: what producers in other languages may send, and whether a release still takes it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from redisjobs.app import App
from redisjobs.cli import exits, render
from redisjobs.cli.apps import load_app
from redisjobs.cli.options import json_option, store_options
from redisjobs.cli.worker import need_place
from redisjobs.errors import ConfigurationError
from redisjobs.schema import compare, export, export_job

Function = TypeVar("Function", bound=Callable[..., Any])


def app_options(function: Function) -> Function:
    """Where the app is: behind the command, or as an option."""
    option = click.option(
        "--app", "-A", metavar="MODULE:APP", envvar="REDISJOBS_APP",
        help="Where the app is; the folder you are in is searched first.",
    )  # fmt: skip
    return click.argument("place", metavar="[MODULE:APP]", required=False)(option(function))


@click.group(
    epilog="""\b
Examples:
  redisjobs schema export shop:app > jobs.schema.json
  redisjobs schema check jobs.schema.json shop:app"""
)
def schema() -> None:
    """Describe the arguments of jobs to producers, and find what a release would break for them."""


@schema.command(
    "export",
    epilog="""\b
Examples:
  redisjobs schema export shop:app > jobs.schema.json
  redisjobs schema export shop:app --job send_confirmation

\b
Needs no store. The document describes a row: {"job": …, "input": …}; the arguments of each job stand in its
$defs under the job's name. With --job it describes the arguments themselves.""",
)
@app_options
@click.option("--job", metavar="NAME", help="The arguments of this job alone.")
@store_options
def export_command(*, place: str | None, app: str | None, job: str | None) -> None:
    """Print a JSON Schema (draft 2020-12) of what jobs take."""
    found = load_app(need_place(place or app))
    render.as_json(_document(found) if job is None else export_job(found.find(job)))


@schema.command(
    epilog="""\b
Examples:
  redisjobs schema check jobs.schema.json shop:app
  redisjobs schema check jobs.schema.json shop:app --json

\b
Exit codes: 0 all that was allowed still is, 1 something breaks, 2 no such file, 78 the file is no export.
Warnings do not fail: they depend on what producers do. Store a new export once no producer of the old one is left."""
)
@click.argument("old", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@app_options
@json_option
@store_options
def check(*, old: Path, place: str | None, app: str | None, as_json: bool) -> None:
    """Compare an app with a stored export: what would break producers that still go by it?"""
    changes = compare(_read(old), _document(load_app(need_place(place or app))))
    counts = Counter(each.level for each in changes)
    if as_json:
        render.as_json({"breaking": counts["breaking"], "changes": [asdict(each) for each in changes]})
    elif changes:
        render.table(
            ["change", "job", "argument", "what"], ([each.level, each.job, each.path, each.text] for each in changes)
        )
    else:
        click.echo("nothing changed for producers")
    if counts["breaking"]:
        raise click.exceptions.Exit(exits.FAILED)


def _document(app: App) -> dict[str, Any]:
    return export(app.name, app.jobs)


def _read(path: Path) -> object:
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ConfigurationError(f"{path} is no JSON ({error}): store what `redisjobs schema export` prints") from None
