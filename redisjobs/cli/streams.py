"""Streams of a command whose parent closed them: they lead nowhere, and their numbers go to nothing else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def fill() -> None:
    """Open on /dev/null what is closed: else a socket gets the number, and what a body starts may write into it."""
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)  # noqa: FBT003 - positional only
        setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for as long as the command
