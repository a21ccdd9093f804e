"""What must pass the type checkers passes both, and what must be refused is refused by both.

In `accepted/` no line may have an error; in `refused/` exactly the lines that end in `# refused`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = sorted([*HERE.glob("accepted/*.py"), *HERE.glob("refused/*.py")])

Errors = dict[str, dict[int, str]]  # file, line, what the checker says there


@pytest.fixture(scope="module")
def mypy(tmp_path_factory: pytest.TempPathFactory) -> Errors:
    cache = tmp_path_factory.mktemp("mypy")
    words = ["--strict", "--explicit-package-bases", "--config-file=", f"--cache-dir={cache}"]
    said = checker("mypy", *words, *map(str, FILES))
    found = (re.match(r"(.+?):(\d+): error: (.*)", line) for line in said.splitlines())
    return gathered((name(match[1]), int(match[2]), match[3]) for match in found if match)


@pytest.fixture(scope="module")
def pyright(tmp_path_factory: pytest.TempPathFactory) -> Errors:
    config = tmp_path_factory.mktemp("pyright") / "pyrightconfig.json"
    config.write_text(json.dumps({"include": [str(file) for file in FILES], "typeCheckingMode": "strict"}))
    said = checker("basedpyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(config))
    answer = json.loads(said)
    assert answer["summary"]["filesAnalyzed"] == len(FILES)
    found = [each for each in answer["generalDiagnostics"] if each["severity"] == "error"]
    return gathered((name(each["file"]), each["range"]["start"]["line"] + 1, each["message"]) for each in found)


def checker(module: str, *words: str) -> str:
    ended = subprocess.run([sys.executable, "-P", "-m", module, *words], capture_output=True, text=True, cwd=HERE)
    assert ended.returncode in {0, 1}, f"{module} broke down:\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def name(file: str) -> str:
    return "/".join(Path(file).parts[-2:])


def gathered(found: Iterable[tuple[str, int, str]]) -> Errors:
    errors: Errors = {}
    for file, line, message in found:
        errors.setdefault(file, {})[line] = message
    return errors


def refused_lines(file: Path) -> set[int]:
    lines = enumerate(file.read_text().splitlines(), 1)
    return {number for number, line in lines if line.endswith("# refused")}


@pytest.mark.parametrize("checker_name", ["mypy", "pyright"])
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_both_checkers_agree_with_the_marks(file: Path, checker_name: str, request: pytest.FixtureRequest):
    errors: Errors = request.getfixturevalue(checker_name)

    said = errors.get(name(str(file)), {})
    marked = refused_lines(file)

    assert set(said) == marked, f"{checker_name} on {file}: {said}"
    assert bool(marked) == (file.parent.name == "refused"), f"{file} stands in the wrong folder, or has no mark"


def test_both_folders_have_files():
    assert {file.parent.name for file in FILES} == {"accepted", "refused"}
