"""A small file system under a server's folder, that a test fills to the last byte.

    disk = SmallDisk(server.folder, megabytes=64)      # the server is stopped
    server.inside = disk.inside
    server.start()
    disk.fill()                                        # ENOSPC, for the server alone
    disk.free()

It is a tmpfs in a mount namespace of its own, so any user may have it where user namespaces are allowed, and no
mount is left behind whatever becomes of the test. What is written there is copied back with `give_back`.
"""

from __future__ import annotations

import errno
import shutil
import subprocess
from pathlib import Path
from typing import BinaryIO, Self

_HOLD = 'mount -t tmpfs -o size="$2"m tmpfs "$1" && echo held && exec cat'
_PIECE = 64 * 1024
_OURS = "ballast"


class SmallDisk:
    """Lies over a folder, for those who are started with `inside` in front of their command.

    Args:
        folder: what it holds now is copied; a server that writes there must be stopped.
        megabytes: what the file system can hold.

    Raises:
        AssertionError: this machine allows no user namespaces.
    """

    def __init__(self, folder: Path, megabytes: int) -> None:
        self._folder = folder
        mount = ["sh", "-c", _HOLD, "sh", str(folder), str(megabytes)]
        self._keeper = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "--", *mount],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._keeper.stdout
        if self._keeper.stdout.readline() != "held\n":
            raise AssertionError(f"no small disk can be mounted here: {self._keeper.communicate()[1]}")
        self.path = Path(f"/proc/{self._keeper.pid}/root{folder}")
        _copy(folder, self.path)

    @property
    def inside(self) -> list[str]:
        """The command in front of that of a server which shall see it."""
        keeper, folder = str(self._keeper.pid), str(self._folder)
        return ["nsenter", "-t", keeper, "-U", "-m", "--preserve-credentials", f"--wd={folder}", "--"]

    def fill(self) -> int:
        """Leave no byte; how many it took."""
        size = 0
        with (self.path / _OURS).open("ab", buffering=0) as ballast:
            for piece in (_PIECE, 4096, 1):
                while written := _written(ballast, piece):
                    size += written
        return size

    def free(self) -> None:
        """Give back what `fill` took."""
        (self.path / _OURS).unlink(missing_ok=True)

    def give_back(self) -> None:
        """Put what the server has written, once it is stopped, into the folder that the disk lies over."""
        self.free()
        for old in self._folder.iterdir():
            if old.name != "log":
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        (self.path / "log").unlink(missing_ok=True)  # written from outside: the folder's is the later one
        _copy(self.path, self._folder)

    def close(self) -> None:
        """What was not given back is lost."""
        if self._keeper.poll() is None:
            self._keeper.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _written(file: BinaryIO, size: int) -> int:
    """How many bytes there was room for."""
    try:
        return file.write(bytes(size))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return 0


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)
