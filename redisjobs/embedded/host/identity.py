"""As whom the servers run: Postgres refuses uid 0, and initdb a uid without a name.

    a user with a name            as itself
    a uid without a name          in a user namespace, where it is called 65534
    root, in another's folder     as the owner of the folder
    root                          in a user namespace, where it is called 65534
    root, namespaces refused      as the user `postgres` or `nobody`

In a user namespace files stay whose they are and private folders stay reachable, so nothing on the
machine changes. Where root takes another user, only our own folders are given to it. No way makes
an account or changes the mode of a folder that is not ours.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .plan import Refused

CLONE_NEWUSER = 0x10000000
INSIDE = 65534  # what the uid is called in its namespace


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the servers are.

    Attributes:
        uid: whom their files belong to.
        way: how a child becomes this identity.
        words: for people.
    """

    uid: int
    gid: int
    way: Literal["same", "namespace", "setuid"]
    words: str

    def become(self) -> None:
        """Turn this process, a fork with a single thread, into the identity. There is no way back."""
        if self.way == "namespace":
            _enter_namespace()
        elif self.way == "setuid":
            os.setgroups([])
            os.setgid(self.gid)
            os.setuid(self.uid)

    def can(self, check: Callable[[], bool]) -> bool:
        """What `check` says when this identity asks.

        Raises:
            Refused: this process cannot become it.
        """
        answer = _in_a_fork(self, check)
        if answer is None:
            raise Refused(
                f"uid {os.geteuid()} cannot become uid {self.uid} to run the servers; "
                "run as another user or set REDISJOBS_DATABASE_URL"
            )
        return answer

    @contextmanager
    def way_to(self, folder: Path) -> Generator[tuple[str, Sequence[int]]]:
        """A path by which this identity reaches the folder, and the descriptors that have to be kept open for it.

        Folders around it may be private to the user that we are. They stay so: on Linux an open
        descriptor has a name that does not lead through them.

        Raises:
            Refused: there is no way.
        """
        if self.can(lambda: os.access(folder, os.X_OK)):
            yield str(folder), ()
        elif sys.platform.startswith("linux"):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                yield f"/proc/self/fd/{descriptor}", (descriptor,)
            finally:
                os.close(descriptor)
        else:
            raise Refused(f"the data folder {folder} cannot be reached as {self.words}: choose one below /var/tmp")


def choose(folders: Sequence[Path], *, postgres: bool, initdb: bool, namespaces: bool) -> Identity:
    """The identity for servers with these folders.

    Args:
        folders: whose owner counts, the first that exists.
        postgres: Postgres is among the servers.
        initdb: its data are still to be made.
        namespaces: user namespaces may be used.

    Raises:
        Refused: there is none.
    """
    uid, gid = os.geteuid(), os.getegid()
    namespace = Identity(uid, gid, "namespace", f"uid {uid}, in a user namespace as uid {INSIDE}")
    owner = next((folder.stat() for folder in folders if folder.exists()), None)
    if uid == 0 and owner is not None and owner.st_uid != 0 and not (initdb and _name(owner.st_uid) is None):
        words = f"uid {owner.st_uid}, the owner of its data"
        return Identity(owner.st_uid, owner.st_gid, "setuid", words)
    if not postgres or (uid != 0 and _name(uid) is not None):
        return Identity(uid, gid, "same", f"uid {uid}")
    if namespaces and _in_a_fork(namespace, lambda: os.geteuid() == INSIDE):
        return namespace
    if uid == 0:
        return _unprivileged()
    if initdb:
        raise Refused(
            f"uid {uid} has no name in /etc/passwd, which initdb needs, and user namespaces are refused: "
            "add a line for it, or set REDISJOBS_DATABASE_URL"
        )
    return Identity(uid, gid, "same", f"uid {uid}")


def hand_over(folder: Path, identity: Identity) -> None:
    """Make a data folder of ours belong to the identity. An earlier run may have had another one.

    The folder itself changes last, so that an interrupted hand-over is taken up again.
    """
    owner = folder.stat().st_uid
    if owner == identity.uid:
        return
    if os.geteuid() != 0:
        raise Refused(
            f"{folder} belongs to uid {owner} and we are uid {os.geteuid()}: "
            "run as its owner, change the owner (chown -R), or choose another data folder"
        )
    for at, subfolders, files in os.walk(folder):
        for name in (*subfolders, *files):
            os.chown(Path(at, name), identity.uid, identity.gid, follow_symlinks=False)
    os.chown(folder, identity.uid, identity.gid)


def _unprivileged() -> Identity:
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return Identity(user.pw_uid, user.pw_gid, "setuid", f"user {name}")
    raise Refused(
        "we run as root, Postgres refuses root, user namespaces are refused, and there is no user 'postgres' "
        "or 'nobody' to take instead: run as another user or set REDISJOBS_DATABASE_URL"
    )


def _name(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def _enter_namespace() -> None:
    uid, gid = os.geteuid(), os.getegid()
    if not sys.platform.startswith("linux") or ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "user namespaces are refused")
    for file, text in (("setgroups", "deny"), ("uid_map", f"{INSIDE} {uid} 1"), ("gid_map", f"{INSIDE} {gid} 1")):
        Path("/proc/self", file).write_text(text)


def _in_a_fork(identity: Identity, check: Callable[[], bool]) -> bool | None:
    """What `check` says as this identity; None: it cannot be had."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            identity.become()
            code = 0 if check() else 1
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {0: True, 1: False}.get(code)
