"""The services of `compose.yaml` as processes of this machine: same commands, same environment, same order.

No Docker is needed. The URLs name the stores of the test, and each process gets ports of its own.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import yaml

from tests.support.net import free_port
from tests.support.processes import CHECKOUT

DOCKERFILE = CHECKOUT / "Dockerfile"
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Replica:
    """One container of a service, as a process."""

    words: list[str]
    env: dict[str, str]
    health: list[str]


@dataclass(frozen=True)
class Service:
    """A service of the file."""

    name: str
    given: dict[str, Any]

    @property
    def words(self) -> list[str]:
        """What it executes: its entrypoint, or the image's, with its command."""
        return [*(self.given.get("entrypoint") or entrypoint()), *self.given.get("command", [])]

    @property
    def needs(self) -> dict[str, str]:
        """The services that must be there before it, each with the condition."""
        return {name: each["condition"] for name, each in self.given.get("depends_on", {}).items()}

    def option(self, name: str) -> str | None:
        """The value of an option in its command."""
        words = [str(word) for word in self.given.get("command", [])]
        return words[words.index(name) + 1] if name in words else None

    def seconds(self, key: str) -> int:
        """A duration of its own, such as `stop_grace_period`."""
        return seconds(self.given[key])

    def replicas(self, database_url: str, redis_url: str) -> list[Replica]:
        """Its containers, each with these stores and ports of its own."""
        count = self.given.get("deploy", {}).get("replicas", 1)
        return [self._replica({"postgresql": database_url, "redis": redis_url}) for _ in range(count)]

    def _replica(self, urls: dict[str, str]) -> Replica:
        port = self.option("--http-port")
        other = str(free_port())

        def own(text: str) -> str:
            return re.sub(rf"\b{port}\b", other, str(text)) if port else str(text)

        environment = {name: own(value) for name, value in self.given.get("environment", {}).items()}
        environment = {name: urls.get(value.partition("://")[0], value) for name, value in environment.items()}
        health = self.given.get("healthcheck", {}).get("test", [])[1:]
        return Replica([own(word) for word in self.words], environment, [own(word) for word in health])


class ComposeFile:
    """The file, with its variables filled in from their defaults."""

    def __init__(self, path: Path = CHECKOUT / "compose.yaml") -> None:
        self.text = path.read_text()

    @cached_property
    def services(self) -> dict[str, Service]:
        """Every service, after those that it depends on."""
        filled = _VARIABLE.sub(lambda found: os.environ.get(found[1], found[2] or ""), self.text)
        given = yaml.safe_load(filled)["services"]
        order = TopologicalSorter({name: list(each.get("depends_on", [])) for name, each in given.items()})
        return {name: Service(name, given[name]) for name in order.static_order()}

    def of_ours(self) -> list[Service]:
        """Those that run our image."""
        return [service for service in self.services.values() if "build" in service.given]


def seconds(text: str) -> int:
    """`40s`, `1m30s`."""
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smh])", text))


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, each with its words; continued lines are one."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    whole = re.sub(r"\\\n\s*", "", text)
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in whole.splitlines() if line.strip()]


def entrypoint() -> list[str]:
    """What the image executes."""
    (found,) = [words for name, words in instructions() if name == "ENTRYPOINT"]
    return [str(word) for word in yaml.safe_load(found)]
