"""What becomes of a Redis' files while nobody looks: lost, cut, or those of an hour ago.

The server must be stopped or killed for all but `Snapshot`, and is not started again here.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.servers import RedisServer

_LOG = "log"


def wipe(server: RedisServer) -> None:
    """Its data is gone, in memory and on disk."""
    _must_be_stopped(server)
    for path in server.folder.iterdir():
        if path.name != _LOG:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def cut_aof(server: RedisServer, size: int) -> int:
    """The last bytes of its append-only file are gone, as after a crash of the machine; how many there were to lose.

    Redis starts with what is whole (`aof-load-truncated`, its default).
    """
    _must_be_stopped(server)
    newest = max(aof_files(server), key=lambda path: int(path.name.split(".")[-3]))
    was = newest.stat().st_size
    with newest.open("rb+") as file:
        file.truncate(max(was - size, 0))
    return min(size, was)


def aof_files(server: RedisServer) -> list[Path]:
    """The increments of its append-only file; it has one from its first start on."""
    found = [*server.folder.glob("appendonlydir/*.incr.aof")]
    assert found, f"no append-only file in {server.folder}: start it with appendonly=yes, from Redis 7 on"
    return found


class Snapshot:
    """Its files as they are now: the server stands still while they are copied.

    Args:
        place: an empty folder for the copy, made here.
    """

    def __init__(self, server: RedisServer, place: Path) -> None:
        self._server, self._place = server, place
        server.freeze()
        try:
            shutil.copytree(server.folder, place, ignore=shutil.ignore_patterns(_LOG, "temp-*"))
        finally:
            server.thaw()

    def put_back(self) -> None:
        """All that came later is forgotten."""
        wipe(self._server)
        shutil.copytree(self._place, self._server.folder, dirs_exist_ok=True)


def _must_be_stopped(server: RedisServer) -> None:
    assert server.process is None, "stop or kill the server first: it has its data in memory"
