"""`redisjobs schema`: for CI, without any store."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support.cli import CommandLine

redisjobs = CommandLine({})
BEFORE = """
from redisjobs import App
app = App("shop")
@app.job(queue="mail")
def send(order_id: int, note: str = "") -> None:
    "Tell the customer."
@app.job
def gone() -> None: ...
"""
AFTER = """
from redisjobs import App
app = App("shop")
@app.job(queue="post")
def send(order_id: int, email: str, note: str | None = None) -> None: ...
@app.job
def fresh() -> None: ...
"""
NO_JOBS = BEFORE.partition("@app")[0]
WIDER = BEFORE.replace("order_id: int,", "order_id: int | str,")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder with two releases of an app; what was imported from it is forgotten."""
    before, path = set(sys.modules), list(sys.path)
    monkeypatch.chdir(tmp_path)
    for name, text in {"before": BEFORE, "after": AFTER, "wider": WIDER, "no_jobs": NO_JOBS}.items():
        (tmp_path / f"{name}_app.py").write_text(text)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name.endswith("_app"):
            del sys.modules[name]


def stored(folder: Path) -> Path:
    path = folder / "jobs.schema.json"
    path.write_text(redisjobs("schema", "export", "before_app:app").stdout)
    return path


def test_the_export_is_one_schema_for_the_rows_of_all_jobs(folder: Path):
    document: Any = json.loads(redisjobs("schema", "export", "--app", "before_app:app").stdout)

    check = jsonschema.Draft202012Validator(document)
    check.validate({"job": "send", "input": {"order_id": 1}})
    assert not check.is_valid({"job": "send", "input": {"order_id": "1"}})
    assert document["$defs"]["send"]["description"] == "Tell the customer."


def test_the_export_is_the_same_each_time(folder: Path):
    assert stored(folder).read_text() == redisjobs("schema", "export", "before_app").stdout


def test_one_job_may_be_exported_alone(folder: Path):
    document = json.loads(redisjobs("schema", "export", "before_app:app", "--job", "send").stdout)

    jsonschema.Draft202012Validator(document).validate({"order_id": 1, "note": "x"})
    assert (
        "no job 'nobody' is declared here"
        in redisjobs("schema", "export", "before_app:app", "--job", "nobody", code=1).stderr
    )


def test_a_check_tells_what_breaks_and_fails(folder: Path):
    told = redisjobs("schema", "check", stored(folder), "after_app:app", code=1).stdout

    lines = [line.split() for line in told.splitlines()[2:]]
    assert [line[:3] for line in lines] == [
        ["breaking", "gone", "the"], ["breaking", "send", "email"], ["warning", "send", "its"],
        ["warning", "send", "the"], ["compatible", "fresh", "the"], ["compatible", "send", "note"],
        ["compatible", "send", "note"],
    ]  # fmt: skip
    assert "must be sent now" in told


def test_a_check_is_a_document_for_machines(folder: Path):
    document = redisjobs.json("schema", "check", stored(folder), "--app", "after_app:app", code=1)

    assert document["breaking"] == 2
    assert document["changes"][1] == {
        "level": "breaking", "job": "send", "path": "email", "text": "must be sent now",
    }  # fmt: skip


def test_what_is_compatible_is_told_and_does_not_fail(folder: Path):
    told = redisjobs("schema", "check", stored(folder), "wider_app:app").stdout

    assert "takes string too now" in told
    assert redisjobs("schema", "check", stored(folder), "before_app:app").stdout == "nothing changed for producers\n"


def test_a_file_that_is_no_export_is_told_without_a_traceback(folder: Path):
    (folder / "broken.json").write_text("{")
    (folder / "other.json").write_text('{"type": "object"}')

    assert "does not exist" in redisjobs("schema", "check", "nowhere.json", "before_app:app", code=2).stderr
    assert "broken.json is no JSON" in redisjobs("schema", "check", "broken.json", "before_app:app", code=78).stderr
    assert "is no export of all jobs" in redisjobs("schema", "check", "other.json", "before_app:app", code=78).stderr


def test_an_app_must_be_named_and_have_jobs(folder: Path):
    assert "Missing the app" in redisjobs("schema", "export", code=2).stderr
    assert "declares no job" in redisjobs("schema", "export", "no_jobs_app:app", code=78).stderr
