"""`redisjobs doctor` inside of a test: what it found, check by check."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from redisjobs.cli import main
from tests.support.cli import CommandLine


class Examined:
    """The findings of one examination, and its exit code."""

    def __init__(self, document: dict[str, Any], code: int) -> None:
        self.findings: list[dict[str, str]] = document["findings"]
        self.code = code
        assert document["healthy"] == (code == 0)

    def of(self, check: str, subject: str = "") -> dict[str, str]:
        """What this check found."""
        found = [each for each in self.findings if each["check"] == check and each["subject"] == subject]
        assert len(found) == 1, f"{check} {subject}: {found or [each['check'] for each in self.findings]}"
        return found[0]

    def levels(self, *levels: str) -> dict[str, str]:
        """The checks that found one of these levels, with what they found."""
        return {each["check"]: each["value"] for each in self.findings if each["level"] in levels}


def examine(redisjobs: CommandLine, *options: str, **env: str) -> Examined:
    """Run it; both codes that it may end with are right."""
    result = CliRunner().invoke(main, ["doctor", "--json", *options], env=redisjobs.env | env, catch_exceptions=False)
    assert result.exit_code in (0, 1), result.output
    return Examined(json.loads(result.stdout), result.exit_code)
