"""An error of a body in another process: told there in plain values, and raised here as if it had been here."""

from __future__ import annotations

import sys
from typing import Any

from redisjobs.base.durations import seconds
from redisjobs.errors import Cancel, Dead, OptionError, RateLimited, RedisjobsError, Retry, Signal, Snooze, StepFailed
from redisjobs.record import message_of, traceback_of, type_of

_SIGNALS: dict[str, type[Signal]] = {
    "Retry": Retry,
    "Snooze": Snooze,
    "RateLimited": RateLimited,
    "Cancel": Cancel,
    "Dead": Dead,
}


def tell(error: BaseException) -> dict[str, Any]:
    """All that the other side needs of an error; nothing of it is pickled."""
    told: dict[str, Any] = {
        "type": type_of(error),
        "message": message_of(error),
        "traceback": traceback_of(error),
        "classes": [f"{each.__module__}:{each.__qualname__}" for each in type(error).__mro__],
    }
    signal = next((name for name, kind in _SIGNALS.items() if isinstance(error, kind)), None)
    if signal is not None:
        told |= {"signal": signal, "reason": str(getattr(error, "reason", "")), "after": _after(error)}
    return told


def revive(told: dict[str, Any]) -> BaseException:
    """An error that the rules of a job take for the one that was told: of its class, with its text and traceback.

    A class that this process has not imported is stood for by the nearest base class that it has.
    """
    match told.get("signal"):
        case "Retry":
            return Retry(told["after"], told["reason"])
        case "Snooze":
            return Snooze(told["after"])
        case "RateLimited":
            return RateLimited(told["after"])
        case "Cancel":
            return Cancel(told["reason"])
        case "Dead":
            return Dead(told["reason"])
        case _:
            return _stand_in(told)


def kinds_of(error: BaseException) -> list[type[BaseException]]:
    """The classes by which the rules of a job know an error: its own, and of a step that failed that of its cause."""
    kinds = [type(error)]
    if isinstance(error, StepFailed):
        if error.__cause__ is not None:
            return kinds + kinds_of(error.__cause__)
        module, _, name = error.error.partition(":")[0].rpartition(".")
        known = _class_at(f"{module or 'builtins'}:{name}")
        kinds += [known] if known is not None else []
    return kinds


def _stand_in(told: dict[str, Any]) -> BaseException:
    module, _, name = told["type"].rpartition(".")
    for place in told["classes"]:
        known = _class_at(place)
        if known is None:
            continue
        try:
            kind = type(name, (_Told, known), {"__module__": module or "builtins", "__qualname__": name})
            error: BaseException = _new(kind)
            error.args = (told["message"],)
            setattr(error, "told", told["message"])  # noqa: B010 - of a class made here, which no checker knows
            setattr(error, "far_traceback", told["traceback"])  # noqa: B010 - likewise
        except Exception:  # noqa: BLE001, S112 - a class that cannot be derived from: the next one stands for it
            continue
        return error
    return RedisjobsError(f"{told['type']}: {told['message']}")


def _new(kind: Any) -> Any:
    return kind.__new__(kind)  # its __init__ may want what is not known here


class _Told:
    """Has its text from the other process, whatever its class makes of it."""

    told = ""
    far_traceback = ""

    def __str__(self) -> str:
        return self.told


def _class_at(place: str) -> type[BaseException] | None:
    module, _, qualname = place.partition(":")
    found: object = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _after(error: BaseException) -> float | None:
    try:
        return seconds("after", getattr(error, "after", None))
    except OptionError:
        return None
