"""Finds the Lua scripts and reads from each what it is called with."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from redisjobs.base.durations import many
from redisjobs.errors import ConfigurationError

_USES = re.compile(r"^-- uses +(lib/.*)$", re.MULTILINE)
_LIBRARY = re.compile(r"lib/(\w+)\.lua")
_COMMENT = re.compile(r"--(?!\[\[).*")
_NAMES = r"\s*local\s+(\w+(?:\s*,\s*\w+)*)\s*=\s*unpack\(%s(?:,\s*1,\s*(\d+))?\)"
_KEYS = re.compile(_NAMES % "KEYS")
_ARGV = re.compile(_NAMES % "ARGV")


@dataclass(frozen=True, slots=True)
class Script:
    """One Lua script as Redis gets it.

    Attributes:
        name: its file name without `.lua`.
        text: its source, the libraries that it uses in front.
        sha: what EVALSHA knows it by: the SHA-1 of `text` in hex.
        keys: the names of its KEYS, in order.
        args: the names of its leading ARGV, in order; a script may walk further ones itself.
    """

    name: str
    text: str
    sha: str
    keys: tuple[str, ...]
    args: tuple[str, ...]


def names() -> list[str]:
    """The names of all scripts, sorted; the libraries in `lib/` are not among them."""
    return sorted(entry.name[: -len(".lua")] for entry in _folder().iterdir() if entry.name.endswith(".lua"))


@cache
def load(name: str) -> Script:
    """The script of this name.

    A module loads its scripts when it is imported, so a file that is missing or does not
    name its KEYS and ARGV fails there and not at the first call.

    Raises:
        ConfigurationError: no such file, no such library, or not the form described in CONTRIBUTING.
    """
    text = _read(_folder(), f"{name}.lua")
    keys, args = _parameters(name, text)
    whole = "".join([*_used_by(f"{name}.lua", text).values(), text])
    return Script(name, whole, hashlib.sha1(whole.encode(), usedforsecurity=False).hexdigest(), keys, args)


@cache
def _folder() -> Traversable:
    """Installed, the scripts lie in the package; in a checkout (editable or on sys.path), beside it."""
    package = files("redisjobs")
    packaged = package.joinpath("lua")
    if packaged.is_dir():
        return packaged
    beside = Path(str(package)).parent / "lua"
    if beside.is_dir():
        return beside
    raise ConfigurationError(f"no Lua scripts in {packaged} nor in {beside}: install redisjobs-pg again")


def _read(folder: Traversable, name: str) -> str:
    try:
        text = folder.joinpath(*name.split("/")).read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"no Lua script {name} in {folder}: load one of {', '.join(names())}, or install redisjobs-pg again"
        ) from error
    return text if text.endswith("\n") else text + "\n"


def _used_by(file: str, text: str, before: tuple[str, ...] = ()) -> dict[str, str]:
    """The libraries of a file and theirs, each once and behind those that it uses itself."""
    if file in before:
        raise ConfigurationError(f"{file} uses itself through {' and '.join(before)}: take one `-- uses` out")
    found: dict[str, str] = {}
    for library in (word for line in _USES.findall(text) for word in line.split()):
        if not _LIBRARY.fullmatch(library):
            raise ConfigurationError(f"{file}: cannot read {library!r} after `-- uses`: write lib/NAME.lua")
        source = _read(_folder(), library)
        found |= _used_by(library, source, (*before, file)) | {library: source}
    return found


def _parameters(name: str, text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    code = _COMMENT.sub("", text)
    found = _KEYS.match(code)
    if not found:
        raise ConfigurationError(
            f"{name}.lua: its first line of code is not `local a, b = unpack(KEYS)`: name every key there"
        )
    keys = _split(name, found)
    rest = code[found.end() :]
    given = _ARGV.match(rest)
    if not given and "ARGV" in rest:
        raise ConfigurationError(
            f"{name}.lua: ARGV is used, and the line behind unpack(KEYS) is not `local a, b = unpack(ARGV)`: "
            "name the leading arguments there"
        )
    return keys, _split(name, given) if given else ()


def _split(name: str, found: re.Match[str]) -> tuple[str, ...]:
    parameters = tuple(re.findall(r"\w+", found[1]))
    if found[2] is not None and int(found[2]) != len(parameters):
        raise ConfigurationError(
            f"{name}.lua: unpack(…, 1, {found[2]}) does not fit {many(len(parameters), 'name')}: {found[1]}"
        )
    if len(set(parameters)) != len(parameters):
        raise ConfigurationError(f"{name}.lua: a name stands twice in {found[1]!r}: give each its own")
    return parameters
