"""The command line inside of a test: `redisjobs("status", "--json")`, with the stores of the test.

For commands that run on and for signals there is `Processes.redisjobs`, which starts a real process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from click.testing import CliRunner, Result

from redisjobs.cli import main


class CommandLine:
    """Runs commands of `redisjobs` in this process.

    Args:
        env: what they find in their environment, such as the URLs of the stores.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = {"REDISJOBS_DATABASE_URL": "", "REDISJOBS_REDIS_URL": "", "DATABASE_URL": "", "REDIS_URL": ""} | {
            **env
        }

    def __call__(self, *arguments: object, code: int = 0, answer: str | None = None, **env: str) -> Result:
        """Run one that has to end with this exit code; `answer` is typed, `env` comes on top."""
        words = [str(each) for each in arguments]
        result = CliRunner().invoke(main, words, input=answer, env=self.env | env, catch_exceptions=False)
        assert result.exit_code == code, f"{' '.join(words)} ended with {result.exit_code}:\n{result.output}"
        assert "Traceback" not in result.stderr
        return result

    def json(self, *arguments: object, code: int = 0) -> Any:
        """Run one with --json: the document, which is all that it may print."""
        return json.loads(self(*arguments, "--json", code=code).stdout)
