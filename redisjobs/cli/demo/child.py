"""A process of the demo: the command, in a process that ends with its parent however that ends."""

from __future__ import annotations

import os
import sys
import threading

from redisjobs.cli import main


def run() -> None:
    """Run the command of the arguments. Standard input is a pipe from the parent, and says nothing till its end."""
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    main()


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(0)
