"""A file that is touched for as long as a role is alive, for probes that cannot speak HTTP."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from redisjobs.errors import ConfigurationError
from redisjobs.logs import event
from redisjobs.monitoring.pulse import Pulse

TOUCH_S = 1.0

log = logging.getLogger("redisjobs.monitoring")


class LivenessFile:
    """Touches a file every second while the pulse says that its role lives.

    The file is never removed: others may touch it too, and an old one says enough.

    Raises:
        ConfigurationError: it cannot be written.
    """

    def __init__(self, path: Path, pulse: Pulse) -> None:
        self._path = path
        self._pulse = pulse
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="redisjobs-liveness", daemon=True)
        try:
            path.touch()
        except OSError as error:
            raise ConfigurationError(
                f"--liveness-file: {path} cannot be written ({error.strerror}): pass a file in a folder that this "
                "user may write to"
            ) from error

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Touch it no more."""
        self._stopping.set()
        self._thread.join(TOUCH_S)

    def _run(self) -> None:
        failed = False
        while not self._stopping.wait(TOUCH_S):
            if not self._pulse.verdict().live:
                continue
            try:
                self._path.touch()
                failed = False
            except OSError as error:
                if not failed:
                    event(log, logging.WARNING, "liveness.untouched", file=self._path, error=str(error))
                failed = True
