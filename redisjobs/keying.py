"""Keys computed from the arguments of a call: a lane, a share, the group of a policy."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from redisjobs.base.plain import refuse_unwritable
from redisjobs.base.signature import Signature
from redisjobs.errors import EnqueueError, OptionError
from redisjobs.policy import KeyRule

_DIGITS = 64


class Keying:
    """Computes one key of each call of a job.

    Args:
        option: how the job's author wrote it, for the texts of errors.
        rule: the name of an argument, or a function that is given those arguments that it names.
        signature: of the job.
        most: characters; what is longer is cut and ends in its SHA-256.

    Raises:
        OptionError: the rule names an argument that the job has not.
    """

    def __init__(self, option: str, rule: KeyRule, signature: Signature, *, most: int = 200) -> None:
        self._option = option
        self._job = signature.name
        self._most = most
        self._function: Callable[..., object] | None = None
        self._all = False
        if isinstance(rule, str):
            self._names: tuple[str, ...] = (rule,)
        else:
            self._function = rule
            self._names, self._all = _named_by(option, rule)
        for name in self._names:
            if not signature.may_take(name):
                why = f"names {name!r}, which job {signature.name!r} does not take: name one of its arguments"
                raise OptionError(option, rule, why)

    def of(self, arguments: Mapping[str, Any]) -> str | None:
        """The key of a call with these arguments, defaults included; None: it has none.

        Raises:
            EnqueueError: the function raised, or answered what is no key.
        """
        value = self.value(arguments)
        if value is None:
            return None
        text = self._text(value.value if isinstance(value, Enum) else value)
        return text if len(text) <= self._most else f"{text[: self._most - _DIGITS - 1]}~{_digest(text)}"

    def value(self, arguments: Mapping[str, Any]) -> object:
        """What the rule answers for a call with these arguments, as it is.

        Raises:
            EnqueueError: the function raised.
        """
        if self._function is None:
            return arguments.get(self._names[0])
        given = dict(arguments) if self._all else {name: arguments[name] for name in self._names if name in arguments}
        try:
            return self._function(**given)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            raise EnqueueError(f"job {self._job!r}: {self._option} could not be computed: {text}") from error

    def _text(self, value: object) -> str:
        if not isinstance(value, (str, int, UUID, Decimal, date)):
            raise EnqueueError(
                f"job {self._job!r}: {self._option} is a {type(value).__name__}: "
                "a key is a text, a whole number, a UUID, a date, or None for no key"
            )
        text = str(value)
        if not text:
            raise EnqueueError(f"job {self._job!r}: {self._option} is an empty text: None is for no key")
        refuse_unwritable(text)
        return text


def _named_by(option: str, function: Callable[..., object]) -> tuple[tuple[str, ...], bool]:
    """The arguments that a function asks for, and whether it takes all."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        why = "does not say which arguments it takes: wrap it, as in lambda user_id: …"
        raise OptionError(option, function, why) from None
    for each in parameters:
        if each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL):
            raise OptionError(option, function, "takes arguments by position: they are given by their names")
    named = tuple(each.name for each in parameters if each.kind is not each.VAR_KEYWORD)
    return named, any(each.kind is each.VAR_KEYWORD for each in parameters)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
