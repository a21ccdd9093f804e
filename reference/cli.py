"""The page on the command line: every command with every option, as `--help` has them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import cast

import click

from redisjobs.cli import main
from reference.markdown import code, fence, page, table

INTRO = """\
`redisjobs COMMAND --help` says the same. A duration is a number of seconds, or one with a unit: `250ms`, `1.5s`, `5m`,
`2h`, `7d`. Every option can be set in the environment; one on the command line comes first. Long-running commands stop
on SIGTERM or Ctrl-C. What each exit code means stands in [operations](../operations.md#signals-and-exit-codes)."""


def page_of_commands() -> str:
    """The page."""
    root = click.Context(main, info_name="redisjobs", auto_envvar_prefix="REDISJOBS")
    shared = "## Options of every command\n\nThey may stand before the command or behind it.\n\n" + _options(
        main, root, set()
    )
    return page(
        "Command line",
        INTRO,
        _overview(root),
        shared,
        *_sections(main, root, {each.name or "" for each in main.params}),
    )


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """The commands of a group, each before its own."""
    for name in group.list_commands(context):
        command = cast(click.Command, group.get_command(context, name))
        inner = click.Context(command, parent=context, info_name=name)
        yield command, inner
        if isinstance(command, click.Group):
            yield from commands(command, inner)


def _overview(root: click.Context) -> str:
    return table(
        ["command", ""],
        ([f"[`{name.command_path}`](#{name.command_path.replace(' ', '-')})", command.get_short_help_str(200)]
         for command, name in commands(main, root)),
    )  # fmt: skip


def _sections(group: click.Group, context: click.Context, shared: set[str]) -> Iterator[str]:
    for command, inner in commands(group, context):
        yield f"## {inner.command_path}"
        yield _prose(inspect.cleandoc(command.help or ""))
        if not isinstance(command, click.Group):
            usage = " ".join([inner.command_path, *command.collect_usage_pieces(inner)])
            yield fence("text", usage)
        yield _options(command, inner, shared)
        yield from _epilog(command.epilog or "")


def _options(command: click.Command, context: click.Context, shared: set[str]) -> str:
    options = [each for each in command.params if isinstance(each, click.Option) and each.name not in shared | {"help"}]
    rows = ([_names(each), _default(each), _environment(each, context), each.help or ""] for each in options)
    return table(["option", "default", "environment", ""], [row for row in rows if not row[0].startswith("`--version")])


def _names(option: click.Option) -> str:
    value = "" if option.is_flag else f" {_metavar(option)}"
    return ", ".join(f"`{name}{value}`" for name in (*option.opts, *option.secondary_opts))


def _metavar(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "|".join(str(choice) for choice in option.type.choices)
    return {"duration": "DURATION", "integer range": "N", "integer": "N", "path": "PATH", "file": "PATH"}.get(
        option.type.name, option.type.name.upper()
    )


def _default(option: click.Option) -> str:
    if option.is_flag or option.default in (None, "") or not isinstance(option.default, (str, int, float)):
        return ""
    return code(option.default)


def _environment(option: click.Option, context: click.Context) -> str:
    named = [option.envvar] if isinstance(option.envvar, str) else list(option.envvar or [])
    if not named and option.allow_from_autoenv and context.auto_envvar_prefix and option.name:
        named = [f"{context.auto_envvar_prefix}_{option.name.upper()}"]
    return ", ".join(code(name) for name in named)


def _epilog(text: str) -> Iterator[str]:
    for part in re.split(r"\n\s*\n", text.replace("\b", "").strip()):
        if part.strip().startswith("Examples:"):
            yield fence("sh parsed", "\n".join(_example(line) for line in part.strip().splitlines()[1:]))
        else:
            yield _prose(part)


def _example(line: str) -> str:
    return "  # ".join(re.split(r" {2,}", line.strip(), maxsplit=1))


def _prose(text: str) -> str:
    """As written, with what would be taken for markup made plain."""
    lines = [line.strip() for line in text.replace("\b", "").strip().splitlines()]
    return re.sub(r"(?<![`\w])(--[a-z-]+)", r"`\1`", "\n".join(lines)).replace("``", "`")
