"""The files for containers: they are well-formed, and what they run carries a job, starts in order and ends in time."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
from compose_spec import PyOptions

from tests.support.compose import DOCKERFILE, ComposeFile, Service, instructions
from tests.support.eventually import eventually_now
from tests.support.processes import CHECKOUT, Processes, Program
from tests.support.servers import RedisServer

SECRETS = ("PASSWORD", "SECRET", "TOKEN", "KEY")
compose = ComposeFile()


class Engine:
    """Does with the services what Docker does, with processes of this machine."""

    def __init__(self, containers: Processes, database_url: str, redis_url: str) -> None:
        self._containers, self._database_url, self._redis_url = containers, database_url, redis_url
        self.running: dict[str, list[Program]] = {}
        self._checks: dict[str, list[list[str]]] = {}

    def up(self, service: Service) -> list[Program]:
        """Start its replicas, once those that it needs are as it demands."""
        for name, condition in service.needs.items():
            self._await(name, condition)
        replicas = service.replicas(self._database_url, self._redis_url)
        self._checks[service.name] = [replica.health for replica in replicas]
        started = [self._containers.start(*replica.words, env=replica.env) for replica in replicas]
        self.running[service.name] = started
        return started

    def is_healthy(self, name: str) -> bool:
        """Whether the health checks of all its replicas succeed."""
        checks = [self._containers.start(*check) for check in self._checks[name]]
        return max(check.wait() for check in checks) == 0

    def _await(self, name: str, condition: str) -> None:
        if condition == "service_completed_successfully":
            assert [program.wait() for program in self.running[name]] == [0], self._containers.report()
        elif name in self.running:
            eventually_now(lambda: self.is_healthy(name), f"{name} is healthy", within=30)


@pytest.fixture
def engine(tmp_path: Path, empty_database_url: str, start_redis: Callable[..., RedisServer]) -> Iterator[Engine]:
    """An engine with the app's folder, the image's programs, and the Redis that the file describes."""
    folder = tmp_path / "app"
    shutil.copytree(CHECKOUT / "examples" / "orders", folder)
    (path := tmp_path / "bin").mkdir()
    for name, code in (("redisjobs", "-c 'from redisjobs.cli import main; main()'"), ("python", "")):
        (path / name).write_text(f'#!/bin/sh\nexec {sys.executable} {code} "$@"\n')
        (path / name).chmod(0o755)
    words = [str(word) for word in compose.services["redis"].given["command"][1:]]
    options = {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}
    redis = start_redis(**options)
    with Processes(folder, {"PATH": f"{path}:/usr/bin:/bin"}) as containers:
        yield Engine(containers, empty_database_url, redis.url)


def jobs_left(url: str) -> int:
    with psycopg.connect(url) as connection:
        return len(connection.execute("SELECT FROM redisjobs.outbox").fetchall())


def test_the_services_start_in_order_carry_jobs_and_end_within_their_grace(engine: Engine, empty_database_url: str):
    for service in compose.of_ours():
        if "profiles" not in service.given:
            engine.up(service)
    (worker,), relays = engine.running["worker"], engine.running["relay"]
    for name in ("relay", "worker"):
        eventually_now(partial(engine.is_healthy, name), f"{name} is healthy", within=30)
    (shop,) = engine.up(compose.services["shop"])

    assert shop.wait() == 0, shop.log()
    assert shop.log().count("payment declined") == 4
    eventually_now(lambda: jobs_left(empty_database_url) == 0, "every job has ended", within=30)
    assert worker.log().count("is confirmed") == 16
    assert len(relays) == 2
    for name, programs in (("worker", [worker]), ("relay", relays)):
        for program in programs:
            assert program.stop(within=compose.services[name].seconds("stop_grace_period")) == 0, program.log()


def test_the_compose_file_is_what_compose_understands():
    PyOptions(apply_merge=True).from_yaml(compose.text).validate()


def test_every_service_that_runs_on_tells_how_it_is():
    for service in compose.services.values():
        assert ("healthcheck" in service.given) == (service.given.get("restart") == "unless-stopped"), service.name


def test_each_service_restarts_logs_within_bounds_and_has_what_it_depends_on():
    for service in compose.services.values():
        assert service.given["logging"]["options"]["max-size"], service.name
        assert "restart" in service.given or "profiles" in service.given, service.name
        for name, condition in service.needs.items():
            needed = compose.services[name].given
            assert condition != "service_healthy" or "healthcheck" in needed, f"{service.name} waits for {name}"


def test_the_grace_of_the_engine_is_longer_than_what_the_commands_need():
    worker, relay = compose.services["worker"], compose.services["relay"]

    assert int((worker.option("--shutdown-grace") or "").removesuffix("s")) + 10 < worker.seconds("stop_grace_period")
    assert relay.seconds("stop_grace_period") > 15


def test_our_containers_can_write_nothing_and_become_nobody_else():
    for service in compose.of_ours():
        assert service.given["read_only"] is True
        assert service.given["cap_drop"] == ["ALL"]
        assert service.given["security_opt"] == ["no-new-privileges:true"]


def test_redis_never_evicts_and_keeps_its_data():
    command = " ".join(compose.services["redis"].given["command"])

    assert "--maxmemory-policy noeviction" in command
    assert "--appendonly yes" in command
    assert "--maxmemory 512mb" in command


def test_ports_of_the_stores_are_open_to_this_machine_alone():
    ports = [port for service in compose.services.values() for port in service.given.get("ports", [])]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_dockerfile_has_nothing_that_a_linter_knows_to_be_wrong():
    hadolint = Path(sys.executable).with_name("hadolint")
    ended = subprocess.run([str(hadolint), "--no-color", str(DOCKERFILE)], capture_output=True, text=True)

    assert (ended.returncode, ended.stdout) == (0, "")


def test_the_image_runs_as_a_number_that_is_not_root_and_holds_no_secret():
    users = [words for name, words in instructions() if name == "USER"]
    values = [words.upper() for name, words in instructions() if name in ("ARG", "ENV")]

    assert users == ["65532:65532"]
    assert not [value for value in values for secret in SECRETS if secret in value]


def test_signals_reach_the_command_without_a_shell_between():
    forms = [words for name, words in instructions() if name in ("ENTRYPOINT", "CMD")]

    assert [form[0] for form in forms] == ["[", "["]


def test_the_wheel_builds_from_exactly_what_the_dockerfile_copies(tmp_path: Path):
    copied = [words.split() for name, words in instructions() if name == "COPY" and not words.startswith(("--", "$"))]
    for *sources, target in copied:
        for source in sources:
            here = CHECKOUT / source
            there = tmp_path / "src" / (target if here.is_dir() else source)
            if here.is_dir():
                shutil.copytree(here, there, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                there.parent.mkdir(exist_ok=True)
                shutil.copy(here, there)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), "."]
    ended = subprocess.run(build, capture_output=True, text=True, cwd=tmp_path / "src", timeout=100)

    assert ended.returncode == 0, ended.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert {"redisjobs/lua/publish.lua", "redisjobs/sql/publisher.sql"} <= set(zipfile.ZipFile(wheel).namelist())


def test_what_the_dockerfile_copies_is_not_ignored():
    kept = {line[1:] for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    sources = [word for name, words in instructions() if name == "COPY" and "--from" not in words
               for word in words.split()[:-1] if not word.startswith("$")]  # fmt: skip

    assert set(sources) | {"examples"} == kept
