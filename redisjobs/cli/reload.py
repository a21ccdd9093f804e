"""For development: watches the source of an app, and starts its processes anew when a file is saved."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
from pathlib import Path
from typing import Any

from redisjobs.cli.fleet import Fleet
from redisjobs.errors import ConfigurationError
from redisjobs.logs import event

log = logging.getLogger("redisjobs.fleet")


async def reloading(fleet: Fleet, place: str) -> int:
    """Run the fleet of the app at this place, and restart it at every change; its exit code.

    Raises:
        ConfigurationError: what watches files is not installed.
    """
    try:
        watchfiles: Any = importlib.import_module("watchfiles")
    except ImportError:
        raise ConfigurationError("--reload needs watchfiles: pip install 'redisjobs-pg[reload]'") from None
    folders = folders_of(place)
    over = asyncio.Event()

    async def follow() -> None:
        async for changes in watchfiles.awatch(*folders, watch_filter=watchfiles.PythonFilter(), stop_event=over):
            file = min(path for _, path in changes)
            event(log, logging.INFO, "fleet.reloading", file=file, changes=len(changes))
            fleet.restart()

    following = asyncio.create_task(follow(), name="reload")
    try:
        return await fleet.run()
    finally:
        over.set()
        following.cancel()


def folders_of(place: str) -> list[Path]:
    """Where the source of an app is: the folder one is in, and that of its package. Nothing is imported."""
    here = Path.cwd()
    found = {here}
    try:
        spec = importlib.util.find_spec(place.partition(":")[0].partition(".")[0])
    except (ImportError, ValueError):
        spec = None
    for folder in (spec.submodule_search_locations if spec else None) or ():
        if not Path(folder).resolve().is_relative_to(here):
            found.add(Path(folder).resolve())
    return sorted(found)
