"""The life of a host: take the data folder, start the servers, say where they are, wait, end them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict

from . import link
from .copies import reachable
from .files import lock, make_folder, open_log, write
from .identity import Identity, choose, hand_over
from .plan import MARKER, Answer, Busy, Failed, Plan, Refused, State, encode
from .postgres import Postgres, is_made
from .process import LOG, Place, Server, stop_all, wait_until_ready
from .redis import Redis
from .watch import Unwanted, Watch

START_LIMIT = 120.0  # seconds; a large append-only file takes some to load


def main() -> None:
    """Run the plan of the command line to its end."""
    plan = Plan.decode(sys.argv[1])
    watch = Watch(plan.parent)
    try:
        lock(plan.run / MARKER)
        make_folder(plan.data)
        if lock(plan.data / ".lock"):
            _serve(plan, watch)
        else:
            _answer(Busy())
    except OSError as error:
        why = f"{error.filename or plan.data}: {error.strerror}"
        _answer(Failed(f"{why} (as uid {os.geteuid()}); run as its owner, or choose another data folder"))
    finally:
        shutil.rmtree(plan.run, ignore_errors=True)


def _serve(plan: Plan, watch: Watch) -> None:
    state_file = plan.data / "state.json"
    state_file.unlink(missing_ok=True)  # of a host that was killed
    log = open_log(plan.data / "servers.log", LOG)
    servers: list[Server] = []
    try:
        state = _start(plan, servers, watch)
        write(state_file, json.dumps(asdict(state)))
        _answer(state)
        _wait(servers, watch)
    except Unwanted as why:
        os.write(LOG, f"host {os.getpid()}: stopping: {why}\n".encode())
    except (Refused, OSError, subprocess.SubprocessError) as error:
        stop_all(servers)
        _answer(Failed(str(error), log.read_text(errors="replace")[-2000:].strip()))
    finally:
        state_file.unlink(missing_ok=True)  # first, so that nobody attaches to servers that are about to end
        stop_all(servers)
        link.remove(plan.data)


def _start(plan: Plan, servers: list[Server], watch: Watch) -> State:
    """Start what the plan asks for; what has been started is in `servers`, also when this raises."""
    place = _place(plan)
    redis = Redis(reachable(plan.redis, place.identity, plan.run), place) if plan.redis else None
    postgres = Postgres(reachable(plan.postgres, place.identity, plan.run), place) if plan.postgres else None
    for server in filter(None, (redis, postgres)):  # Redis is up before initdb is through
        server.prepare(watch)
        server.start()
        servers.append(server)
    wait_until_ready(servers, watch, START_LIMIT)
    return State(
        host_pid=os.getpid(),
        run=str(plan.run),
        description=f"{', '.join(str(server.binary) for server in reversed(servers))}; as {place.identity.words}",
        database_url=postgres.url() if postgres else None,
        postgres_pid=postgres.pid() if postgres else None,
        postgres_socket=str(postgres.socket_path()) if postgres else None,
        redis_url=redis.url() if redis else None,
        redis_pid=redis.pid() if redis else None,
        redis_socket=str(redis.socket_path()) if redis else None,
    )


def _wait(servers: Sequence[Server], watch: Watch) -> None:
    while True:
        watch.wait()
        for server in servers:
            if (code := server.exit_code()) is not None:
                raise Unwanted(f"{server.name} has ended with {code}")


def _place(plan: Plan) -> Place:
    """Choose the identity, and make a folder for its sockets that it can reach."""
    identity = _identity(plan)
    identity.can(bool)  # raises if it cannot be had, before any folder is handed over
    if identity.way == "setuid":
        plan.run.chmod(0o711)
    sockets = plan.run / "sockets"
    sockets.mkdir(0o700)
    hand_over(sockets, identity)
    kept = not plan.data.is_relative_to(plan.run)
    return Place(plan.data, sockets, link.make(plan.data, sockets) if kept else sockets, identity, plan.durable)


def _identity(plan: Plan) -> Identity:
    folders = [plan.data / binary.flavour for binary in (plan.postgres, plan.redis) if binary]
    initdb = plan.postgres is not None and not is_made(folders[0])
    return choose([*folders, plan.data], postgres=plan.postgres is not None, initdb=initdb, namespaces=plan.namespaces)


def _answer(answer: Answer) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody there to read it; the watch sees that too
        os.write(1, f"{encode(answer)}\n".encode())
