"""However redisjobs is installed, it has every script, statement and migration of the checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
LISTING = Path(__file__).with_name("listing.py")
NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
SITE = Path(sysconfig.get_path("purelib"))


@dataclass
class Built:
    """A copy of the checkout, and what was built from it; the wheel was built from the sdist."""

    checkout: Path
    sdist: Path
    wheel: Path


def run(*command: str | Path, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV_"))}
    ended = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, env=clean | NO_BYTECODE | environment, cwd="/"
    )
    assert ended.returncode == 0, f"{command} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    copy = tmp_path_factory.mktemp("copy") / "redisjobs"
    untouched = shutil.ignore_patterns(".git", ".*_cache", ".venv", "__pycache__", ".hypothesis", ".redisjobs", "dist")
    shutil.copytree(CHECKOUT, copy, ignore=untouched)
    run(sys.executable, "-m", "build", "--no-isolation", copy)
    (sdist,) = (copy / "dist").glob("*.tar.gz")
    (wheel,) = (copy / "dist").glob("*.whl")
    return Built(copy, sdist, wheel)


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A fresh environment that borrows the dependencies of this one, behind its own packages."""
    venv.create(tmp_path / "venv", symlinks=True, with_pip=False)
    executable = tmp_path / "venv" / "bin" / "python"
    own = Path(run(executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (own / "zz_borrowed.pth").write_text(f"{SITE}\n")
    return executable


def install(python: Path, *what: str | Path) -> None:
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-build-isolation", *what)


def listed(python: Path, **environment: str) -> tuple[Path, dict[str, str]]:
    said = json.loads(run(python, LISTING, **environment))
    return Path(said["from"]), said["found"]


@pytest.fixture(scope="module")
def expected(built: Built) -> dict[str, str]:
    """What the checkout has, and that it is all there is in its folders."""
    where, found = listed(Path(sys.executable), PYTHONPATH=str(built.checkout))
    assert where.is_relative_to(built.checkout)
    sql = built.checkout / "redisjobs" / "sql"
    heads = {f"statement {file.stem}.{name}" for file in sql.glob("*.sql") for name in heads_of(file)}
    scripts = {f"script {file.stem}" for file in (built.checkout / "lua").glob("*.lua")}
    migrations = {f"migration {file.name}" for file in (sql / "migrations").iterdir()}
    assert set(found) == heads | scripts | migrations
    assert migrations
    return found


def heads_of(file: Path) -> list[str]:
    return re.findall(r"^-- name: (\w+)", file.read_text(), re.MULTILINE)


def test_a_wheel_brings_everything(built: Built, python: Path, expected: dict[str, str]):
    install(python, built.wheel)

    where, found = listed(python)

    assert where.is_relative_to(python.parents[1])
    assert found == expected


def test_the_installed_command_tells_its_version(built: Built, python: Path):
    install(python, built.wheel)
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]

    said = run(python.with_name("redisjobs"), "--version")

    assert version in said.split()


def test_the_installed_pytest_plugin_is_found_and_costs_no_import_of_the_package(built: Built, python: Path):
    install(python, built.wheel)
    (python.parents[2] / "test_it.py").write_text(
        "import sys\ndef test_it():\n    assert not [name for name in sys.modules if name.startswith('redisjobs')]\n"
    )
    (python.parents[2] / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    options = ("-p", "no:valkey", "-p", "no:cacheprovider", "-W", "error", "--rootdir", python.parents[2])

    said = run(python, "-m", "pytest", "--fixtures", *options, python.parents[2] / "test_it.py")
    ran = run(python, "-m", "pytest", *options, python.parents[2] / "test_it.py")

    assert "redisjobs_enqueued" in said
    assert "redisjobs_world" in said
    assert "1 passed" in ran


def test_an_sdist_brings_everything(built: Built, python: Path, expected: dict[str, str]):
    install(python, built.sdist)

    where, found = listed(python)

    assert where.is_relative_to(python.parents[1])
    assert found == expected


def test_an_editable_install_follows_the_checkout(built: Built, python: Path, expected: dict[str, str], tmp_path: Path):
    checkout = tmp_path / "checkout"
    shutil.copytree(built.checkout, checkout, ignore=shutil.ignore_patterns("dist"))
    install(python, "--editable", checkout)

    where, found = listed(python)

    assert where.is_relative_to(checkout)
    assert found == expected

    (checkout / "lua" / "written_later.lua").write_text("local here = unpack(KEYS)\n")
    assert set(listed(python)[1]) == {*expected, "script written_later"}


def test_a_checkout_on_the_path_needs_no_install(built: Built, python: Path, expected: dict[str, str]):
    assert listed(python, PYTHONPATH=str(built.checkout))[1] == expected


def test_a_zip_on_the_path_needs_no_install(built: Built, python: Path, expected: dict[str, str]):
    where, found = listed(python, PYTHONPATH=str(built.wheel))

    assert where.is_relative_to(built.wheel)
    assert found == expected


def test_a_wheel_has_the_whole_package_its_types_and_its_licence_and_nothing_else(built: Built):
    package = built.checkout / "redisjobs"
    files = {str(file.relative_to(built.checkout)) for file in package.rglob("*") if file.is_file()}
    lua = {f"redisjobs/{file.relative_to(built.checkout)}" for file in (built.checkout / "lua").rglob("*.*")}

    names = set(zipfile.ZipFile(built.wheel).namelist())

    beside = {name for name in names if re.match(r"redisjobs_pg-[^/]+\.dist-info/", name)}
    assert names - beside == files | lua | {"pytest_redisjobs.py"}
    assert "redisjobs/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in beside)


def test_an_sdist_has_the_scripts_where_the_checkout_has_them(built: Built):
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {str(file.relative_to(built.checkout)) for file in (built.checkout / "lua").rglob("*.*")} <= names
    assert {"LICENSE", "README.md", "pyproject.toml", "redisjobs/py.typed", "tests/packaging/listing.py"} <= names
