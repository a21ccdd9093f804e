"""`redisjobs migrate`: makes or updates the tables."""

from __future__ import annotations

import click

from redisjobs import migrations
from redisjobs.cli import render
from redisjobs.cli.hints import hint
from redisjobs.cli.options import given, json_option, store_options


@click.command(
    epilog="""\b
Examples:
  redisjobs migrate                     apply what is missing; safe from several places at once
  redisjobs migrate --check             exit code 1, and the names, where something is missing
  redisjobs migrate --print > up.sql    for a DBA; needs no database"""
)
@click.option("--print", "as_text", is_flag=True, help="Print the SQL of all steps instead of running it.")
@click.option("--check", is_flag=True, help="Only look: exit code 1 where a step is missing.")
@json_option
@store_options
def migrate(*, as_text: bool, check: bool, as_json: bool) -> None:
    """Make or update the tables in Postgres."""
    settings = given().settings()
    if as_text:
        click.echo(migrations.script(settings.schema), nl=False)
        return
    url = settings.need_database_url()
    if check:
        _check(migrations.missing(url, settings.schema), settings.schema, as_json=as_json)
        return
    applied = migrations.migrate(url, settings.schema)
    if as_json:
        render.as_json({"schema": settings.schema, "applied": applied})
        return
    for name in applied:
        click.echo(f"applied {name}")
    click.echo(f"schema {settings.schema} is up to date")


def _check(missing: list[str], schema: str, *, as_json: bool) -> None:
    if as_json:
        render.as_json({"schema": schema, "missing": missing})
    elif missing:
        click.echo(hint(f"schema {schema} lacks {', '.join(missing)}: run `redisjobs migrate`"))
    else:
        click.echo(f"schema {schema} is up to date")
    if missing:
        raise click.exceptions.Exit(1)
