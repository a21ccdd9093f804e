"""The `redisjobs` command."""

from redisjobs.cli.group import main

__all__ = ["main"]
