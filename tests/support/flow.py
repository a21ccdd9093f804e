"""What happens to the bytes of one direction, whatever they say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Flow:
    """The state of one direction, requests or replies, for all connections of a proxy.

    Lives in the proxy's loop: tests change it through a `Direction`.
    """

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.swallowing = False
        self.latency = 0.0  # seconds
        self.rate = 0.0  # bytes a second; 0: without a limit
        self.budget: int | None = None  # bytes that still pass before a reset
        self.reset()

    def reset(self) -> None:
        self.gate.set()
        self.swallowing, self.latency, self.rate, self.budget = False, 0.0, 0.0, None


class Direction:
    """One way through a proxy, for all its connections."""

    def __init__(self, do: Callable[[Callable[[], None]], None], flow: Flow) -> None:
        self._do, self._flow = do, flow

    def pause(self) -> None:
        """Bytes wait in the proxy; closing waits too."""
        self._do(self._flow.gate.clear)

    def resume(self) -> None:
        self._do(self._flow.gate.set)

    def swallow(self) -> None:
        """Bytes vanish, and connections stay open."""
        self._set(swallowing=True)

    def delay(self, seconds: float) -> None:
        """Every byte takes so much longer; 0 takes it back."""
        self._set(latency=seconds)

    def throttle(self, bytes_per_second: float) -> None:
        """No faster than this, for each connection; 0 takes it back."""
        self._set(rate=bytes_per_second)

    def cut_after(self, size: int) -> None:
        """So many bytes pass, counted over all connections; then that connection is closed in mid-sentence."""
        self._set(budget=size)

    def _set(self, **settings: float | bool | None) -> None:
        def change() -> None:
            for name, value in settings.items():
                setattr(self._flow, name, value)

        self._do(change)
