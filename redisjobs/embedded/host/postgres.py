"""The Postgres of the pair."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from urllib.parse import quote

from .identity import hand_over
from .plan import Binary, Refused
from .process import LOG, Place, Server, spawn
from .watch import Unwanted, Watch

SETTINGS = ("listen_addresses=", "port=5432", "logging_collector=off", "max_connections=200")
DURABLE = ("shared_buffers=128MB",)
FAST = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "shared_buffers=32MB",
    "autovacuum_naptime=5s",
)
HELD_BY_THE_DEAD = ("lock file", "shared memory block")


class Postgres(Server):
    """Everybody who reaches its socket, in a folder of mode 0700, is let in as any user."""

    name = "postgres"
    death = signal.SIGINT
    stops = ((0, signal.SIGINT), (10, signal.SIGQUIT), (15, signal.SIGKILL))

    def __init__(self, binary: Binary, place: Place) -> None:
        super().__init__(binary, place)
        self._log_start = 0

    def prepare(self, watch: Watch) -> None:
        """Run initdb. Its folder gets its name only when it is complete."""
        if is_made(self.folder):
            return hand_over(self.folder, self.place.identity)
        draft = self.folder.with_name(f"{self.folder.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(0o700)
        hand_over(draft, self.place.identity)
        try:
            self._initdb(draft, watch)
            draft.rename(self.folder)
            return None
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def start(self) -> None:
        self._log_start = os.fstat(LOG).st_size
        super().start()

    def command(self, folder: str) -> list[str]:
        settings = (
            *SETTINGS, f"unix_socket_directories={self.place.sockets}", *(DURABLE if self.place.durable else FAST),
        )  # fmt: skip
        options = [part for setting in settings for part in ("-c", setting)]
        return [str(self.binary.path / "postgres"), "-D", folder, *options]

    def is_ready(self) -> bool:
        """What pg_ctl looks at; an old file can say `ready` as well, so its process must be ours."""
        try:
            lines = (self.folder / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid()) and lines[7].strip() == "ready"

    def is_to_be_tried_again(self) -> bool:
        """The children of a killed postmaster hold its lock and its memory for a moment."""
        with (self.place.data / "servers.log").open(errors="replace") as log:
            log.seek(self._log_start)
            said = log.read()
        return self.exit_code() == 1 and any(words in said for words in HELD_BY_THE_DEAD)

    def socket_path(self) -> Path:
        return self.place.sockets / ".s.PGSQL.5432"

    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={quote(str(self.place.told))}&port=5432"

    def _initdb(self, folder: Path, watch: Watch) -> None:
        with self.place.identity.way_to(folder) as (name, kept):
            process = spawn(self._initdb_command(name), self.place.identity, signal.SIGKILL, kept, own_group=True)
        try:
            while process.poll() is None:
                watch.wait(1)
        except Unwanted:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        if process.returncode:
            raise Refused(f"initdb of {self.binary} ended with {process.returncode}")

    def _initdb_command(self, folder: str) -> list[str]:
        """The same sort order on every machine, whatever its locales."""
        newer = self.binary.version >= (17,)
        builtin = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if newer else []
        speed = [] if self.place.durable else ["--no-sync"]
        return [
            str(self.binary.path / "initdb"), "-D", folder, "-U", "postgres", "-E", "UTF8",
            "--no-locale", *builtin, "--auth-local=trust", "--auth-host=reject", *speed,
        ]  # fmt: skip


def is_made(folder: Path) -> bool:
    """Whether there are data of Postgres in the folder."""
    return (folder / "PG_VERSION").exists()
