"""A step's result on its way into its record and back: what is returned the first time is what a replay returns."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from types import FunctionType
from typing import Any, ForwardRef, get_args, get_origin

from redisjobs.base.annotations import annotations_of, resolve, shape_of
from redisjobs.base.codec import Codecs
from redisjobs.base.plain import Refusal
from redisjobs.base.shapes import ANY, Shape
from redisjobs.errors import DecodeError
from redisjobs.steps import StepRecord

REMEMBERED = 10_000

_shapes: dict[Any, Shape] = {}


class Values:
    """Writes results into records and reads them.

    Args:
        shape: of what is written; by default plain data.
    """

    def __init__(self, codecs: Codecs, shape: Shape = ANY) -> None:
        self._codecs = codecs
        self._shape = shape

    @classmethod
    def of(cls, codecs: Codecs, function: Callable[..., Any]) -> Values:
        """For what a function returns, as it is annotated."""
        return cls(codecs, result_shape(function))

    def write(self, record: StepRecord, value: Any) -> None:
        """Put a value into a record.

        Raises:
            EncodeError: it cannot travel, or is too large.
        """
        if value is None:
            record.codec = record.value = None
            return
        what = f"the result of step {record.name!r}"
        try:
            plain = self._shape.write(value)
        except Refusal as refusal:
            raise refusal.as_error(what) from None
        record.codec, record.value = self._codecs.encode(plain, what)

    def read(self, record: StepRecord) -> Any:
        """The value in a record.

        Raises:
            DecodeError: it cannot be read, or does not fit the annotation in this release.
        """
        if record.codec is None or record.value is None:
            return None
        plain = self._codecs.decode(record.codec, record.value)
        try:
            return self._shape.read(plain) if self._shape.reads else plain
        except Exception as error:  # noqa: BLE001 - a class of the user's, built from data of any age
            why = f"does not fit its annotation in this release ({type(error).__name__})"
            raise DecodeError(f"the recorded result of step {record.name!r} {why}") from None


def result_shape(function: Callable[..., Any]) -> Shape:
    """The shape of what a function returns, or of what is awaited from it."""
    while isinstance(function, functools.partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType]  # of whatever function
    bare: Any = inspect.unwrap(getattr(function, "__func__", function))
    if not inspect.isroutine(bare):
        kind: Any = type(bare)  # pyright: ignore[reportUnknownVariableType]  # of whatever callable
        bare = getattr(kind, "__call__", None)  # noqa: B004 - the method is wanted, not whether there is one
    if not inspect.isfunction(bare) or "return" not in (written := annotations_of(bare)):
        return ANY
    key = bare.__code__, written["return"]  # a body makes its inner functions anew each time, of the same code
    try:
        if (known := _shapes.get(key)) is not None:
            return known
    except TypeError:  # an annotation that cannot be hashed
        return _shape_of(_resolved(bare, written, {}))
    hint = _resolved(bare, written, {})
    if isinstance(hint, (str, ForwardRef)):  # it names what only the function around it knows
        return _shape_of(_resolved(bare, written, _closed_over(bare)))
    if len(_shapes) >= REMEMBERED:
        _shapes.clear()
    return _shapes.setdefault(key, _shape_of(hint))


def _resolved(function: FunctionType, written: dict[str, Any], local: dict[str, Any]) -> Any:
    return resolve({"return": written["return"]}, function.__globals__, local)["return"]


def _closed_over(function: FunctionType) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # nothing is in it yet
            found[name] = cell.cell_contents
    return found


def _shape_of(hint: Any) -> Shape:
    return shape_of(get_args(hint)[-1] if get_origin(hint) in (Awaitable, Coroutine) else hint)
