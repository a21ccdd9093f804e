"""`redisjobs doctor`: is this set-up sound, and what is to be done where it is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import cast

import click

from redisjobs.base.durations import many
from redisjobs.cli import exits, render
from redisjobs.cli.hints import hint
from redisjobs.cli.options import given, json_option, store_options
from redisjobs.doctor import Finding, Given, Level, examine

MARKS: dict[Level, str] = {"ok": "ok", "warn": "WARN", "fail": "FAIL", "unknown": "?"}
READ_ELSEWHERE = (
    "REDISJOBS_DATABASE_URL", "REDISJOBS_REDIS_URL", "REDISJOBS_DATABASE_PASSWORD", "REDISJOBS_REDIS_PASSWORD",
    "REDISJOBS_PG_BIN", "REDISJOBS_REDIS_BIN", "REDISJOBS_ROOT", "REDISJOBS_TASKS", "REDISJOBS_MEMBER",
    "REDISJOBS_WEBHOOK_KEYS",
)  # fmt: skip
"""Variables that no option stands for: those of settings, embedded servers, Django, workers of several processes."""


@click.command(
    epilog="""\b
Examples:
  redisjobs doctor
  redisjobs doctor --for relay                     with the relay's URL: may this login do its work?
  redisjobs doctor --json | jq '.findings[] | select(.level == "fail")'

\b
Changes nothing. Exit codes: 0 nothing failed (there may be warnings), 1 something failed, 78 no URL was given."""
)
@click.option(
    "--for", "meant_for", type=click.Choice(["relay", "producer", "operator"]),
    help="The work that the database login shall do; by default any of them will do.",
)  # fmt: skip
@click.option("--all", "every", is_flag=True, help="Show also what is well.")
@json_option
@store_options
def doctor(*, meant_for: str | None, every: bool, as_json: bool) -> None:
    """Look over the whole set-up: what is wrong, why it matters, and the command that mends it."""
    settings = given().settings()
    ours = Given(os.environ, known_names(), settings.need_database_url(), settings.need_redis_url())
    findings = [replace(each, remedy=hint(each.remedy)) for each in examine(settings, ours, meant_for)]
    levels = [each.level for each in findings]
    if as_json:
        counts = {level: levels.count(level) for level in MARKS}
        render.as_json({"healthy": "fail" not in levels, "counts": counts, "findings": findings})
    else:
        show(findings, every=every)
    if "fail" in levels:
        raise click.exceptions.Exit(exits.FAILED)


def show(findings: list[Finding], *, every: bool) -> None:
    """What is not well, each with why and remedy; and the sum."""
    for each in findings:
        if each.level == "ok" and not every:
            continue
        subject = f" queue {each.subject}:" if each.subject else ""
        click.echo(f"{MARKS[each.level]:<5} {each.check:<22}{subject} {render.printable(each.value)}")
        for name, text in (("why", each.why), ("do", each.remedy)):
            if text:
                click.echo(f"      {name:<4} {render.printable(text)}")
    counts = {level: sum(each.level == level for each in findings) for level in MARKS}
    said = f"{counts['ok']} ok, {many(counts['warn'], 'warning')}, {counts['fail']} failed"
    click.echo(f"{said}, {counts['unknown']} could not be looked at")


def known_names() -> list[str]:
    """Every REDISJOBS_ variable that some command reads."""
    group = import_module("redisjobs.cli.group").main
    return sorted({*READ_ELSEWHERE, *_names(cast(click.Group, group), "REDISJOBS")})


def _names(command: click.Command, prefix: str) -> Iterator[str]:
    for option in command.params:
        yield from ([option.envvar] if isinstance(option.envvar, str) else option.envvar or [])
        if isinstance(option, click.Option) and option.allow_from_autoenv and option.name:
            yield f"{prefix}_{option.name.upper()}"
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if found := command.get_command(context, name):
                yield from _names(found, f"{prefix}_{name.upper().replace('-', '_')}")
