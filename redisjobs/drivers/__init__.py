"""How a statement goes over a caller's connection: one door for every kind, and a module for each driver."""

from redisjobs.drivers.door import ask, ask_async, is_async, send, send_async
from redisjobs.drivers.driver import Statement

__all__ = ["Statement", "ask", "ask_async", "is_async", "send", "send_async"]
