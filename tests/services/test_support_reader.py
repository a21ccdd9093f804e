"""A page that is not true fails; the reader of the manual itself is tested here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import pages
from tests.support.commands import complaints
from tests.support.pages import Page
from tests.support.processes import Processes
from tests.support.reader import Reader

Follow = Callable[[str], None]


@pytest.fixture
def follow(
    tmp_path: Path, processes: Processes, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Follow]:
    """Follows a page of this text."""
    monkeypatch.setattr(pages, "CHECKOUT", tmp_path)

    with Reader(tmp_path, processes, database_url, redis_url) as reader:

        def page_of(text: str) -> None:
            (tmp_path / "page.md").write_text(text)
            reader.follow(Page(tmp_path / "page.md"))

        yield page_of


def test_a_page_that_is_true_passes_and_its_blocks_share_a_namespace(follow: Follow):
    follow(
        "<!-- unseen\n```python\nimport asyncio\nfour = 4\n```\n-->\n"
        "```python\nawait asyncio.sleep(0)\nprint(four, 'jobs')\n```\n\n```text output\n4 …\n```\n"
        "```sql\nSELECT 1 AS one\n```\n\n```text output\none\n1\n```\n"
        "```console\n$ redisjobs migrate\nschema redisjobs is up to date\n$ echo two; echo lines\ntwo\nlines\n```\n"
        "```python file=mine/jobs.py\nX = 1\n```\n```sh\nredisjobs migrate --check && test -f mine/jobs.py\n```\n"
        "```yaml from=compose.yaml\nimage: redisjobs-orders\nbuild:\n  context: .\n```\n"
        "```yaml\na: [1]\n```\n```dockerfile\nFROM python:3.13-slim\nUSER 65532\n```\n"
    )


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("```python\n1 / 0\n```", r"page\.md:1 \(python\): raised"),
        ("```python\nprint(4)\n```\n\n```text output\n5\n```", r"page\.md:5 \(text\): it printed\n4"),
        ("<!-- unseen\n```python\n1 / 0\n```\n-->", "ZeroDivisionError"),
        ("```sql\nSELECT wrong\n```", 'column "wrong" does not exist'),
        ("```sh\nredisjobs dead lst\n```", "No such command 'lst'"),
        ("```sh\nfalse\n```", "`false` ended with 1"),
        ("```sh parsed\nredisjobs relay --bach-size 3\n```", "`redisjobs relay` has no option --bach-size"),
        ("```sh parsed\nfor x in\n```", "syntax error"),
        ("```console\n$ echo one\ntwo\n```", "it printed\none"),
        ("```yaml\na: [\n```", "while parsing a flow node"),
        ("```dockerfile\nFROM python\n```", "DL3006"),
        ("```rust\nfn main() {}\n```", "is not checked"),
        ("```yaml from=compose.yaml\nimage: other\n```", "does not stand so in compose.yaml"),
        ("```go from=go.mod\nmodule other\n```", "No such file"),
        ("```\nnameless\n```", "is not checked"),
        ("```python skip\n1 / 0\n```", r"nobody knows these words: \['skip'\]"),
    ],
)
def test_a_page_that_is_not_true_fails(follow: Follow, block: str, told: str):
    with pytest.raises(AssertionError, match=told):
        follow(block)


def test_a_program_that_ends_while_the_page_goes_on_is_noticed(follow: Follow):
    with pytest.raises(AssertionError, match="no_such_module"):
        follow("```sh\nredisjobs worker no_such_module:app\n```")


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("redisjobs jobs show ID", 0),
        ("redisjobs --schema other migrate --print > up.sql", 0),
        ("redisjobs status --json | jq .queues", 0),
        ("ls -la", 0),
        ("kubectl create secret generic redisjobs --from-literal=A=b", 0),
        ("A=1 exec .venv/bin/redisjobs nosuch", 1),
        ("make setup && redisjobs nosuch; redisjobs neither", 2),
        ("redisjobs jobs shw ID", 1),
        ("redisjobs status --jsn", 1),
        ("redisjobs worker --concurrency=5 --slots 3", 1),
    ],
)
def test_a_command_is_looked_up(line: str, wrong: int):
    assert len(complaints(line)) == wrong
