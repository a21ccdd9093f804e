"""The languages that the examples of producers are written in: those of this machine, else fetched once.

Node and psql come inside wheels of the test extra, `pg` from npm, the rest from Debian's packages, unpacked into the
cache folder. Nothing is skipped: a language that cannot be had is an error that says why.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.support.binaries import postgres_binaries
from tests.support.fetching import CACHE, LIBRARIES, MissingBinary, cached, debian_folder, library_path
from tests.support.postgres_versions import npm

EXAMPLES = Path(__file__).parents[2] / "examples" / "producers"


@dataclass(frozen=True, slots=True)
class Language:
    """How programs of one language are started.

    Args:
        command: what stands before the program's file.
        folder: of the example's programs.
        packages: a folder that must stand beside a program, for its imports.
        built: the example's programs are there as executables.
    """

    name: str
    suffix: str
    command: tuple[str, ...]
    folder: Path
    env: dict[str, str] = field(default_factory=dict[str, str])
    packages: Path | None = None
    built: bool = False

    def program(self, name: str) -> list[str]:
        """The command that runs one of the example's programs."""
        return [str(self.folder / name)] if self.built else [*self.command, str(self.folder / f"{name}.{self.suffix}")]

    def run(self, text: str, folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Write a program into this folder and run it there."""
        if self.packages and not (folder / self.packages.name).exists():
            (folder / self.packages.name).symlink_to(self.packages)
        program = folder / f"program.{'mjs' if self.packages else self.suffix}"  # mjs: node, to take `import`
        program.write_text(text)
        command = [*self.command, str(program)]
        return subprocess.run(command, capture_output=True, text=True, env={**env, **self.env}, timeout=120)


def language(name: str) -> Language:
    """The language of this name, ready to run.

    Raises:
        MissingBinary: it cannot be had here; says why.
    """
    return _MADE[name]()


def all_languages() -> dict[str, Language]:
    """Every language, ready to run; what is missing is fetched side by side."""
    with ThreadPoolExecutor(len(_MADE)) as threads:
        return dict(zip(_MADE, threads.map(language, _MADE), strict=True))


@cache
def _node() -> Language:
    """Node, with a copy of the example beside its packages."""
    node, folder, packages = node_copy(EXAMPLES / "node")
    return Language("node", "js", (str(node),), folder, packages=packages)


def node_copy(example: Path) -> tuple[Path, Path, Path]:
    """Node of the wheel that the type checker brings, a copy of these programs, and the packages that they ask for.

    Raises:
        MissingBinary: it cannot be had here; says why.
    """
    node, npm_script = npm()
    wanted = (example / "package.json").read_bytes()

    def fill(place: Path) -> None:
        (place / "package.json").write_bytes(wanted)
        install = [node, npm_script, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        said = subprocess.run(install, cwd=place, capture_output=True, text=True)
        if said.returncode:
            raise MissingBinary(f"npm cannot install what {example / 'package.json'} asks for:\n{said.stderr}")

    packages = cached(f"node-{_short_hash(wanted)}", fill)
    files = sorted(example.glob("*.js*"))
    folder = packages / _short_hash(b"".join(file.read_bytes() for file in files))  # node looks for packages further up
    folder.mkdir(exist_ok=True)
    for file in files:
        shutil.copy(file, folder)
    return Path(node), folder, packages / "node_modules"


def _short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


@cache
def _psql() -> Language:
    program = postgres_binaries() / "psql"
    if not program.exists():
        raise MissingBinary(f"no psql beside initdb in {program.parent}: install postgresql-client")
    return Language("sql", "sql", (str(program), "-X", "-q", "-f"), EXAMPLES / "sql")


@cache
def _ruby() -> Language:
    if _runs("ruby", "-e", "require 'pg'; require 'json'; exit(RUBY_VERSION >= '3.0')"):
        return Language("ruby", "rb", ("ruby",), EXAMPLES / "ruby")
    root = debian_folder("ruby", ["ruby", "ruby-pg"], kin=rf"{LIBRARIES}|ruby\d[\d.]*")
    places = [f"{root}/usr/{at}" for at in ("lib/ruby/vendor_ruby", "lib/*/ruby/vendor_ruby/*", "lib/ruby/*.*.*",
                                            "lib/*/ruby/*.*.*")]  # fmt: skip
    env = {"RUBYLIB": _there(places), "LD_LIBRARY_PATH": library_path(root)}
    program = _only(root, "usr/bin/ruby[0-9]*")
    return _checked(Language("ruby", "rb", (program, "--disable-gems"), EXAMPLES / "ruby", env), "-e", "require 'pg'")


@cache
def _php() -> Language:
    driver = "exit(extension_loaded('pdo_pgsql') && PHP_MAJOR_VERSION >= 8 ? 0 : 1);"
    if _runs("php", "-r", driver):
        return Language("php", "php", ("php",), EXAMPLES / "php")
    root = debian_folder("php", ["php-cli", "php-pgsql"], kin=rf"{LIBRARIES}|php\d[\d.]*-(cli|common|pgsql)")
    extensions = str(Path(_only(root, "usr/lib/php/*/pdo_pgsql.so")).parent)
    options = ("-n", "-d", f"extension_dir={extensions}", "-d", "extension=pdo", "-d", "extension=pdo_pgsql")
    env = {"LD_LIBRARY_PATH": library_path(root)}
    program = _only(root, "usr/bin/php[0-9]*")
    return _checked(Language("php", "php", (program, *options), EXAMPLES / "php", env), "-r", driver)


@cache
def _perl() -> Language:
    probe = ("-MDBD::Pg", "-MJSON::PP", "-e", "1")
    if _runs("perl", *probe):
        return Language("perl", "pl", ("perl",), EXAMPLES / "perl")
    root = debian_folder("perl", ["libdbd-pg-perl"], kin=rf"{LIBRARIES}|perl|perl-modules-[\d.]+")
    places = [f"{root}/usr/{at}" for at in ("lib/*/perl5/*", "share/perl5", "lib/*/perl/*.*", "share/perl/*.*")]
    env = {"PERL5LIB": _there(places), "LD_LIBRARY_PATH": library_path(root)}
    found = shutil.which("perl") or _only(root, "usr/bin/perl")
    return _checked(Language("perl", "pl", (found,), EXAMPLES / "perl", env), *probe)


@cache
def _go() -> Language:
    """The example is built once for each text of it; the driver comes as source, from Debian too."""
    driver = Path("/usr/share/gocode")
    if not (driver / "src/github.com/lib/pq").exists():
        driver = debian_folder("go-pq", ["golang-github-lib-pq-dev"], kin="no others") / "usr/share/gocode"
    env = {"GO111MODULE": "off", "CGO_ENABLED": "0", "GOPATH": str(driver), "GOCACHE": str(CACHE / "go-build")}
    go = shutil.which("go")
    if go is None:
        root = debian_folder("go", ["golang-go"], kin=r"golang-[\d.]+-(go|src)")
        go = _only(root, "usr/lib/go-*/bin/go")
        env["GOROOT"] = str(Path(go).parents[1])
    sources = sorted((EXAMPLES / "go").glob("*.go"))

    def build(place: Path) -> None:
        for name in ("demo", "conformance"):
            files = [str(EXAMPLES / "go" / f"{file}.go") for file in (name, "redisjobs")]
            command = [str(go), "build", "-o", str(place / name), *files]
            said = subprocess.run(command, capture_output=True, text=True, env=os.environ | env, timeout=300)
            if said.returncode:
                raise MissingBinary(f"{' '.join(command)} failed:\n{said.stdout}{said.stderr}")

    folder = cached(f"go-{_short_hash(b''.join(file.read_bytes() for file in sources))}", build)
    return Language("go", "go", (go, "run"), folder, env, built=True)


_MADE: dict[str, Callable[[], Language]] = {
    "sql": _psql,
    "node": _node,
    "ruby": _ruby,
    "php": _php,
    "perl": _perl,
    "go": _go,
}
LANGUAGES = tuple(_MADE)


def _runs(*command: str, env: dict[str, str] | None = None) -> bool:
    if not shutil.which(command[0]):
        return False
    return subprocess.run(command, capture_output=True, env=os.environ | (env or {}), timeout=60).returncode == 0


def _checked(made: Language, *probe: str) -> Language:
    said = subprocess.run(
        [*made.command, *probe], capture_output=True, text=True, env=os.environ | made.env, timeout=60
    )
    if said.returncode:
        raise MissingBinary(f"{made.name} was fetched and does not run; install it with its driver for Postgres:\n"
                            f"{said.stdout}{said.stderr}")  # fmt: skip
    return made


def _there(patterns: list[str]) -> str:
    found = [
        str(place) for pattern in patterns for place in sorted(Path("/").glob(pattern.lstrip("/"))) if place.is_dir()
    ]
    return ":".join(found)


def _only(root: Path, pattern: str) -> str:
    found = sorted(place for place in root.glob(pattern) if re.search(r"\d$|perl$|/go$|\.so$", str(place)))
    if not found:
        raise MissingBinary(f"no {pattern} in {root}; remove it to fetch it again")
    return str(found[0])
