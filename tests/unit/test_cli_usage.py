"""What the command says of itself, and of a user's mistakes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from redisjobs import App
from redisjobs.cli.apps import load_app
from redisjobs.cli.group import COMMANDS
from redisjobs.cli.options import duration
from redisjobs.cli.worker import names, slots
from redisjobs.errors import ConfigurationError
from tests.support.cli import CommandLine

redisjobs = CommandLine({})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, for modules; what was imported from it is forgotten."""
    before, path = set(sys.modules), list(sys.path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_help_names_every_command_and_shows_examples():
    text = redisjobs("--help").output

    assert all(name in text for name in COMMANDS)
    assert "Examples:" in text
    assert "REDISJOBS_DATABASE_URL" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(command: str):
    text = redisjobs(command, "--help").output

    assert f"redisjobs {command}" in text.partition("Examples:")[2]


def test_the_version_is_told():
    assert redisjobs("--version").output.startswith("redisjobs, version ")


def test_an_unknown_command_and_an_unknown_option_are_wrong_usage():
    assert "No such command 'worker2'" in redisjobs("worker2", code=2).stderr
    assert "No such option" in redisjobs("status", "--jason", code=2).stderr


def test_without_a_url_the_setting_is_named():
    assert "set REDISJOBS_DATABASE_URL" in redisjobs("status", code=78).stderr
    assert "set REDISJOBS_DATABASE_URL" in redisjobs("migrate", code=78).stderr


def test_without_a_url_beside_a_dev_that_runs_here_its_file_is_named(folder: Path):
    assert ".redisjobs/env" not in redisjobs("status", code=78).stderr
    (folder / ".redisjobs").mkdir()
    (folder / ".redisjobs" / "env").touch()
    assert "those of `redisjobs dev` in this folder:  . .redisjobs/env" in redisjobs("status", code=78).stderr
    assert ". .redisjobs/env" in redisjobs("status", "--database-url", "postgresql://x/y", code=78).stderr


def test_where_the_dev_that_ran_has_ended_that_is_told(folder: Path):
    stores = {
        "REDISJOBS_DATABASE_URL": f"postgresql://postgres@/postgres?host={folder}/sockets&port=5432",
        "REDISJOBS_REDIS_URL": f"unix://{folder}/sockets/redis.sock",
    }
    told = "the `redisjobs dev` whose stores these are has ended: start it again"

    assert told in redisjobs("migrate", code=69, **stores).stderr
    assert told in redisjobs("limits", "list", code=69, **stores).stderr
    assert redisjobs("status", code=69, **stores).output.count(told) == 1


def test_servers_start_only_where_an_app_is_named(folder: Path):
    assert "Missing the app: pass MODULE:APP" in redisjobs("dev", code=2).stderr
    assert not list(folder.iterdir())


def test_an_id_that_is_none_is_wrong_usage():
    assert "'17' is no job id: pass a UUID" in redisjobs("jobs", "show", "17", code=2).stderr


def test_a_schema_that_cannot_be_is_wrong_configuration():
    assert "schema ('a-b')" in redisjobs("--schema", "a-b", "migrate", "--print", code=78).stderr


def test_a_raw_password_in_a_url_is_refused_and_no_part_of_it_is_shown():
    url = "redis://:p@ss/w#%+:?@127.0.0.1/0"

    told = redisjobs("status", "--redis-url", url, "--database-url", "postgresql://h/d", code=78).output

    assert "percent-encoded" in told
    assert not any(part in told for part in ("p@ss", "ss/w", "#%+"))


@pytest.mark.parametrize("url", ["host=h password=hush hash", "postgresql://me:hush@h/d?nosuch=hush"])
def test_a_database_url_that_libpq_cannot_read_is_refused_without_showing_it(url: str):
    told = redisjobs("migrate", "--database-url", url, code=78).stderr

    assert "database_url cannot be read" in told
    assert not any(part in told for part in ("hush", "hash"))


def test_the_schema_may_be_given_before_or_behind_the_command_or_in_the_environment():
    wanted = 'CREATE TABLE "other".outbox'

    assert wanted in redisjobs("--schema", "other", "migrate", "--print").stdout
    assert wanted in redisjobs("migrate", "--print", "--schema", "other").stdout
    assert wanted in redisjobs("migrate", "--print", REDISJOBS_SCHEMA="other").stdout
    assert wanted in redisjobs("migrate", "--print", REDISJOBS_MIGRATE_SCHEMA="other").stdout


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5s", 1.5), ("250ms", 0.25), ("5m", 300), ("7d", 604_800)]
)
def test_a_duration_may_have_a_unit(text: str, seconds: float):
    assert duration(text) == seconds


def test_slots_are_a_number_or_a_number_for_each_queue():
    assert slots("20") == 20
    assert slots("default=20,mail.*=5") == {"default": 20, "mail.*": 5}
    assert names("default, mail.*,") == ["default", "mail.*"]


def test_an_app_is_found_in_the_current_folder_by_name_or_as_the_only_one(folder: Path):
    (folder / "one_app.py").write_text("from redisjobs import App\nshop = App()")

    assert isinstance(load_app("one_app:shop"), App)
    assert load_app("one_app") is load_app("one_app:shop")


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("no_such_module:app", "no module 'no_such_module' was found in"),
        ("several:nothing", "module 'several' has no 'nothing': pass --app several:a or several:b"),
        ("several", "('several') names no app: pass --app several:a or several:b"),
        ("several:App", "and no redisjobs.App: pass --app several:a"),
        ("bare:app", "write `app = redisjobs.App()` in it"),
        ("broken:app", "importing 'broken' raised ZeroDivisionError: division by zero, at "),
        ("unfinished:app", "importing 'unfinished' raised SyntaxError"),
        ("needy:app", "importing 'needy' raised ModuleNotFoundError: No module named 'no_such_library'"),
        ("leaving:app", "importing 'leaving' raised SystemExit: 0, at "),
        ("shop/app.py", "is no place of an app: pass module:name"),
    ],
)
def test_an_app_that_cannot_be_loaded_is_told_with_the_remedy(folder: Path, place: str, told: str):
    (folder / "several.py").write_text("from redisjobs import App\na, b = App(), App()")
    (folder / "bare.py").write_text("")
    (folder / "broken.py").write_text("1 / 0")
    (folder / "leaving.py").write_text("import sys\nsys.exit(0)")
    (folder / "unfinished.py").write_text("def f(:")
    (folder / "needy.py").write_text("import no_such_library")

    with pytest.raises(ConfigurationError) as caught:
        load_app(place)

    assert told in str(caught.value)
