"""Real servers for a laptop and for tests: started, or those that run already."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from redisjobs.embedded.find import Search, Source
from redisjobs.embedded.folders import make_run_folder
from redisjobs.embedded.host import plan as messages
from redisjobs.embedded.host.plan import Failed, Plan, State
from redisjobs.embedded.own import leads_into
from redisjobs.errors import ConfigurationError

ATTACH_LIMIT = 120.0  # seconds; the other one may be starting
RUN_HOST = "import sys; sys.path.insert(0, sys.argv.pop(1)); from host.main import main; main()"


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the servers are.

    Attributes:
        host_pid: the process that ends them, None where none were started.
        run: a temporary folder with their sockets, removed at the end.
        attached: another process started them, and they end with that one.
        description: which servers, from where and as whom, in words.
    """

    database_url: str
    redis_url: str
    host_pid: int | None = None
    postgres_pid: int | None = None
    redis_pid: int | None = None
    run: Path | None = None
    attached: bool = False
    description: str = ""


class Embedded:
    """Real Postgres and Redis as child processes, without root, docker or a download.

        with Embedded() as servers:
            psycopg.connect(servers.database_url)

    They listen on unix sockets that only this user can reach. They end with this process however it
    ends, SIGKILL included; a Ctrl-C on the terminal reaches only the application, which can use them
    until it has drained. If the process forks into the background, start them after that.

    A server whose URL is given, here or as REDISJOBS_DATABASE_URL or REDISJOBS_REDIS_URL, is not started,
    unless the URL names the folder `sockets` of `data`, where the URLs of a data folder lead at each start.
    The programs are those given here, then those of REDISJOBS_PG_BIN and REDISJOBS_REDIS_BIN, then the
    wheels of the extra `embedded`, then the machine's.

    Args:
        data: a folder to keep the data in. If another process has started servers on it, those are
            used. None: a temporary folder that is removed at the end.
        source: only wheels, or only what the machine has.
        pg_bin: the folder of `postgres` and `initdb`.
        redis_bin: the file `redis-server` or `valkey-server`.
        durable: whether what was acknowledged outlives a crash of the machine (Redis: all but the last
            second). Without, both are faster and Redis keeps nothing. By default, if there is a `data`.
    """

    def __init__(
        self,
        data: str | Path | None = None,
        *,
        database_url: str | None = None,
        redis_url: str | None = None,
        source: Source = "auto",
        pg_bin: str | Path | None = None,
        redis_bin: str | Path | None = None,
        durable: bool | None = None,
    ) -> None:
        self._data = data
        self._given = (database_url, redis_url)
        self._source: Source = source
        self._bins = (pg_bin, redis_bin)
        self._durable = data is not None if durable is None else durable
        self._lock = threading.Lock()
        self._host: subprocess.Popen[str] | None = None
        self._servers: Servers | None = None
        self._owner = 0

    def start(self) -> Servers:
        """Start what is not given, and return when all of it answers. A no-op while it runs.

        Raises:
            ConfigurationError: a program is missing or does not start; tells the remedy. Nothing runs then.
        """
        with self._lock:
            if self._servers is None:
                self._owner = os.getpid()
                self._servers = self._start()
            return self._servers

    def stop(self) -> None:
        """End what was started, and return when it has ended. A no-op if there is nothing."""
        with self._lock:
            host, self._host, self._servers = self._host, None, None
            if host is not None and self._owner == os.getpid():  # not in a fork: the servers are not its own
                _let_go(host)

    def __enter__(self) -> Servers:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> Servers:
        database_url, database_words = self._of_others(self._given[0], "PostgreSQL", "REDISJOBS_DATABASE_URL")
        redis_url, redis_words = self._of_others(self._given[1], "Redis", "REDISJOBS_REDIS_URL")
        words = ", ".join(filter(None, (database_words, redis_words)))
        if database_url and redis_url:
            return Servers(database_url, redis_url, description=words)
        search = Search(self._source)
        postgres = None if database_url else search.postgres(self._bins[0])
        redis = None if redis_url else search.redis(self._bins[1])
        search.finish()
        plan = Plan(os.getpid(), Path(), Path(), self._durable, _namespaces(), postgres, redis)
        state, attached = self._host_or_attach(plan)
        return Servers(
            database_url=database_url or state.database_url or "",
            redis_url=redis_url or state.redis_url or "",
            host_pid=state.host_pid,
            postgres_pid=None if database_url else state.postgres_pid,
            redis_pid=None if redis_url else state.redis_pid,
            run=Path(state.run),
            attached=attached,
            description=", ".join(filter(None, (words, state.description))),
        )

    def _of_others(self, argument: str | None, name: str, setting: str) -> tuple[str | None, str]:
        """The URL of a server that need not be started, and where it comes from."""
        url = argument or os.environ.get(setting)
        if not url or (self._data is not None and leads_into(url, Path(self._data))):
            return None, ""
        return url, f"{name} of {'the URL given' if argument else setting}"

    def _host_or_attach(self, plan: Plan) -> tuple[State, bool]:
        """Start a host, or find the one that has the data folder. It may end while we look, so try in turn."""
        end = time.monotonic() + ATTACH_LIMIT
        while True:
            if state := self._start_host(plan):
                return state, False
            folder = Path(self._data or "").absolute()
            if state := _state_of_other(folder, within=1):
                return _checked(state, plan, folder), True
            if time.monotonic() > end:
                raise ConfigurationError(
                    f"the data folder {folder} is in use by a process whose servers cannot be reached from here; "
                    "end it, or choose another data folder"
                )

    def _start_host(self, plan: Plan) -> State | None:
        """What the new host has started; None: another has the data folder."""
        run = make_run_folder()
        data = run / "data" if self._data is None else Path(self._data).absolute()
        try:
            host = _spawn(replace(plan, run=run, data=data))
        except BaseException:
            shutil.rmtree(run, ignore_errors=True)
            raise
        try:
            answer = _answer_of(host)
            if isinstance(answer, State):
                self._host = host
                return answer
            if isinstance(answer, Failed):
                raise ConfigurationError(f"the embedded servers did not start: {answer.why}\n{answer.log}".rstrip())
            return None
        finally:
            if self._host is not host:
                _let_go(host)
                shutil.rmtree(run, ignore_errors=True)


def _namespaces() -> bool:
    way = os.environ.get("REDISJOBS_ROOT", "")
    if way not in ("", "setuid"):
        raise ConfigurationError(
            f"REDISJOBS_ROOT ({way!r}) has to be 'setuid', to do without user namespaces, or not set at all"
        )
    return way != "setuid"


def _spawn(plan: Plan) -> subprocess.Popen[str]:
    """The host, in a session of its own: signals of the terminal do not reach it."""
    package = Path(__file__).absolute().parent
    return subprocess.Popen(  # noqa: S603  our own program
        [sys.executable, "-I", "-S", "-c", RUN_HOST, package, plan.encode()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _answer_of(host: subprocess.Popen[str]) -> messages.Answer:
    line = host.stdout.readline() if host.stdout else ""
    try:
        return messages.decode(line)
    except ValueError:
        host.wait()
        return Failed(f"the host process ended with {host.returncode} and without a word")


def _let_go(host: subprocess.Popen[str]) -> None:
    """The host ends its servers when its standard input ends; if it cannot, they end with it."""
    if host.stdin:
        with suppress(OSError):
            host.stdin.close()
    try:
        host.wait(30)
    except subprocess.TimeoutExpired:
        host.kill()
        host.wait()
    if host.stdout:
        host.stdout.close()


def _state_of_other(folder: Path, within: float) -> State | None:
    """What another host says that it runs, once it answers. What a killed one said does not count."""
    end = time.monotonic() + within
    while True:
        with suppress(OSError, ValueError):
            state = messages.decode(f'{{"state": {(folder / "state.json").read_text()}}}')
            if isinstance(state, State) and all(_answers(path) for path in (state.postgres_socket, state.redis_socket)):
                return state
        if time.monotonic() > end:
            return None
        time.sleep(0.02)


def _answers(path: str | None) -> bool:
    if path is None:
        return True
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        return client.connect_ex(path) == 0


def _checked(state: State, plan: Plan, folder: Path) -> State:
    """Raises:
    ConfigurationError: the other host does not run what we need.
    """
    for needed, there, setting in (
        (plan.postgres, state.database_url, "REDISJOBS_DATABASE_URL"),
        (plan.redis, state.redis_url, "REDISJOBS_REDIS_URL"),
    ):
        if needed and not there:
            raise ConfigurationError(
                f"the data folder {folder} is in use by process {state.host_pid}, which runs no {needed.name}; "
                f"set {setting} here as it is set there, or choose another data folder"
            )
    return state
