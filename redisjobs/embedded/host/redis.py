"""The Redis, or Valkey, of the pair."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from urllib.parse import quote

from .identity import hand_over
from .process import Server
from .watch import Watch


class Redis(Server):
    """Durable: an append-only file, written every second; otherwise nothing is kept."""

    name = "redis"
    death = signal.SIGKILL  # SIGTERM can be refused; what was acknowledged is in the append-only file
    stops = ((0, signal.SIGTERM), (0.5, signal.SIGTERM), (1, signal.SIGTERM), (2, signal.SIGTERM), (4, signal.SIGKILL))

    def prepare(self, watch: Watch) -> None:
        self.folder.mkdir(0o700, exist_ok=True)
        hand_over(self.folder, self.place.identity)

    def command(self, folder: str) -> list[str]:
        return [
            str(self.binary.path),
            "--port", "0", "--unixsocket", str(self.socket_path()), "--unixsocketperm", "700",
            "--dir", folder, "--daemonize", "no",
            "--save", "", "--appendonly", "yes" if self.place.durable else "no", "--maxmemory-policy", "noeviction",
        ]  # fmt: skip

    def is_ready(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            try:
                client.connect(str(self.socket_path()))
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith(b"+PONG")
            except OSError:
                return False

    def socket_path(self) -> Path:
        return self.place.sockets / "redis.sock"

    def url(self) -> str:
        return f"unix://{quote(str(self.place.told / self.socket_path().name))}"
