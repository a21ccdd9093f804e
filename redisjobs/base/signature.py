"""A body's signature: binds a call's arguments, and brings a payload back to arguments."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_origin

from redisjobs.base.annotations import annotations_of, resolve, shape_of
from redisjobs.base.plain import Refusal, is_dict, is_list, kind_of
from redisjobs.base.shapes import ANY, SCALARS, Shape, scalars_of
from redisjobs.errors import ArgumentsError, ConfigurationError, DecodeError

_REMEMBERED = 64

_REFUSED_KINDS: dict[object, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only: arguments travel by name, so leave out the `/`",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of positional arguments: declare one list instead",
}


class Signature:
    """The parameters of a body, apart from its context.

    Args:
        name: of the job, for the texts of errors.
        context: the class whose annotation on the first parameter asks for the context.
        local: names that annotations may use besides the module's, for a body declared inside a function.

    Raises:
        ConfigurationError: a parameter that cannot be passed by name.
    """

    def __init__(
        self, name: str, function: Callable[..., Any], context: type, local: Mapping[str, Any] | None = None
    ) -> None:
        self.name = name
        self._function = function
        self._context = context
        self._local = dict(local or {})
        self.declared = _signature_of(function)
        parameters = list(self.declared.parameters.values())
        if parameters and parameters[0].kind is inspect.Parameter.POSITIONAL_ONLY and self.takes_context:
            del parameters[0]
        for parameter in parameters:
            why = _REFUSED_KINDS.get(parameter.kind)
            if why:
                raise ConfigurationError(f"job {name!r}: the parameter {parameter.name!r} {why}")

    @cached_property
    def takes_context(self) -> bool:
        """Whether the body's first parameter is for its context."""
        first = next(iter(self.declared.parameters.values()), None)
        if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
            return False
        hint = self.hints.get(first.name)
        origin = get_origin(hint) or hint
        if isinstance(origin, type) and issubclass(origin, self._context):
            return True
        text = getattr(hint, "__forward_arg__", hint)
        return (
            isinstance(text, str) and text.strip("'\"").partition("[")[0].rpartition(".")[2] == self._context.__name__
        )

    @property
    def resolved(self) -> inspect.Signature:
        """The parameters apart from the context, with their annotations resolved, as far as they can be."""
        declared = self._plan.signature
        return declared.replace(
            parameters=[
                each.replace(annotation=self.hints.get(each.name, each.empty)) for each in declared.parameters.values()
            ]
        )

    def may_take(self, name: str) -> bool:
        """Whether a call can have an argument of this name. Resolves no annotation."""
        parameters = self.declared.parameters
        return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())

    def by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call that fits, by name and as they were given, with the defaults of the others."""
        plan = self._plan
        return plan.defaults | dict(zip(plan.positional, args, strict=False)) | kwargs

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, as plain data. Defaults are left to the worker.

        Raises:
            ArgumentsError: they do not fit.
            EncodeError: one of them cannot travel.
        """
        plan = self._plan
        bound = dict(zip(plan.positional, args, strict=False)) | kwargs
        if len(bound) != len(args) + len(kwargs) or not plan.fits(bound):
            self._explain(args, kwargs)
        if (misfit := plan.misfit(bound)) is not None:
            raise ArgumentsError(f"job {self.name!r}: {misfit}")
        return {name: self._write(name, value) for name, value in bound.items()} if plan.writes else bound

    def _explain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            self._plan.signature.bind(*args, **kwargs)
        except TypeError as error:
            unknown = [] if self._plan.rest else sorted(kwargs.keys() - self._plan.names)
            also = f", and it knows no {', '.join(unknown)}" if unknown and f"'{unknown[0]}'" not in str(error) else ""
            raise ArgumentsError(f"job {self.name!r}: {error}{also}; it takes {self._plan.shown}") from None

    def arguments(self, data: Any) -> dict[str, Any]:
        """The arguments by name, from a decoded payload: an object of names, or an array of positions.

        Raises:
            DecodeError: they do not fit this release of the job. The text shows no value.
        """
        plan = self._plan
        named: dict[str, Any] = data if is_dict(data) else self._by_name(data)
        if not plan.fits(named):
            raise self._misfit(named.keys())
        if (misfit := plan.misfit(named)) is not None:
            raise DecodeError(f"an argument of job {self.name!r} does not fit in this release: {misfit}")
        return {name: self._read(name, value) for name, value in named.items()} if plan.reads else named

    def write_result(self, value: Any) -> Any:
        """The plain data of what the body returned.

        Raises:
            EncodeError: it cannot travel.
        """
        try:
            return self._result.write(value)
        except Refusal as refusal:
            raise refusal.as_error("the result") from None

    def read_result(self, data: Any) -> Any:
        """What the body returned, from plain data.

        Raises:
            DecodeError: it does not fit the annotation.
        """
        return _guarded(self._result, data, f"the result of job {self.name!r}")

    def _write(self, name: str, value: Any) -> Any:
        try:
            return self._plan.shape(name).write(value)
        except Refusal as refusal:
            raise refusal.as_error(name) from None

    def _read(self, name: str, data: Any) -> Any:
        shape = self._plan.shape(name)
        return _guarded(shape, data, f"the argument {name[:60]!r} of job {self.name!r}") if shape.reads else data

    def _by_name(self, data: Any) -> dict[str, Any]:
        if not is_list(data):
            raise DecodeError(f"arguments of job {self.name!r} must be an object or an array, not {_kind(data)}")
        names = self._plan.positional
        if len(data) > len(names):
            raise DecodeError(f"job {self.name!r} takes {len(names)} arguments by position, and {len(data)} came")
        return dict(zip(names, data, strict=False))

    def _misfit(self, names: Any) -> DecodeError:
        missing = sorted(self._plan.required - names)
        unknown = [] if self._plan.rest else sorted(str(name)[:60] for name in names - self._plan.names)
        parts = [f"without {', '.join(missing)}"] if missing else []
        parts += [f"with the unknown {', '.join(unknown[:10])}"] if unknown else []
        return DecodeError(f"arguments came {' and '.join(parts)}: they do not fit job {self.name!r} in this release")

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The annotations, resolved as far as they can be now."""
        function = inspect.unwrap(self._function)
        return resolve(annotations_of(function), getattr(function, "__globals__", {}), self._local)

    @cached_property
    def _result(self) -> Shape:
        return shape_of(self.hints["return"]) if "return" in self.hints else ANY

    @cached_property
    def _plan(self) -> _Plan:
        return self._plan_of(list(self.declared.parameters.values())[1 if self.takes_context else 0 :])

    def _plan_of(self, parameters: list[inspect.Parameter]) -> _Plan:
        return _Plan.of(self.declared.replace(parameters=parameters), self.hints)


@dataclass(slots=True)
class _Plan:
    """What binding needs, worked out once.

    Args:
        parameters: the shape of each, without the one that takes all other names.
        rest: the name of that one, and the shape of what it takes.
        scalars: which of them each may be, where that is known.
    """

    signature: inspect.Signature
    parameters: dict[str, Shape]
    rest: str
    rest_shape: Shape
    positional: tuple[str, ...]
    required: frozenset[str]
    names: frozenset[str]
    writes: bool
    reads: bool
    scalars: dict[str, frozenset[type]]
    seen: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])

    @classmethod
    def of(cls, signature: inspect.Signature, hints: Mapping[str, Any]) -> _Plan:
        rest = next((each.name for each in signature.parameters.values() if each.kind is each.VAR_KEYWORD), "")
        named = [each for each in signature.parameters.values() if each.name != rest]
        shapes = {each.name: shape_of(hints[each.name]) if each.name in hints else ANY for each in named}
        rest_shape = shape_of(hints[rest]) if rest in hints else ANY
        return cls(
            signature=signature,
            parameters=shapes,
            rest=rest,
            rest_shape=rest_shape,
            positional=tuple(each.name for each in named if each.kind is not each.KEYWORD_ONLY),
            required=frozenset(each.name for each in named if each.default is each.empty),
            names=frozenset(shapes),
            writes=any(shape.writes for shape in (*shapes.values(), rest_shape)),
            reads=any(shape.reads for shape in (*shapes.values(), rest_shape)),
            scalars={
                each.name: allowed | {type(None)} if each.default is None else allowed
                for each in named
                if (allowed := scalars_of(shapes[each.name])) is not None
            },
        )

    def misfit(self, arguments: Mapping[str, Any]) -> str | None:
        """What is wrong with the first that is a text, a number or the like, and may not be one of its kind."""
        for name, value in arguments.items():
            kind = kind_of(value)
            if kind not in SCALARS or kind in self.scalars.get(name, SCALARS):
                continue
            if kind is float and int in self.scalars[name] and value.is_integer():  # some languages know no other
                continue
            return f"{name[:60]} is {_a(kind)}, and its annotation says {self._annotation(name)}"
        return None

    def _annotation(self, name: str) -> str:
        written = self.signature.parameters[name].annotation
        return (written if isinstance(written, str) else inspect.formatannotation(written))[:100]

    def fits(self, arguments: dict[str, Any]) -> bool:
        """Whether these names are a call of the function."""
        names = tuple(arguments)
        if names in self.seen:  # what was called once is called again
            return True
        given = frozenset(names)
        fitting = self.required <= given and (bool(self.rest) or given <= self.names)
        if fitting and len(self.seen) < _REMEMBERED:
            self.seen.add(names)
        return fitting

    def shape(self, name: str) -> Shape:
        """The shape of an argument."""
        return self.parameters.get(name, self.rest_shape)

    @property
    def shown(self) -> str:
        """The parameters as a reader knows them."""
        return f"({', '.join(self.parameters)}{', **' + self.rest if self.rest else ''})"

    @property
    def defaults(self) -> dict[str, Any]:
        """The parameters that need not be given."""
        given = self.signature.parameters.values()
        return {each.name: each.default for each in given if each.default is not each.empty}


def _signature_of(function: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        import annotationlib  # noqa: PLC0415  # new in 3.14

        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(function)


def _guarded(shape: Shape, data: Any, what: str) -> Any:
    try:
        return shape.read(data)
    except Exception as error:  # noqa: BLE001  # a class of the user's, built from data of any age
        raise DecodeError(f"{what} does not fit its annotation in this release ({type(error).__name__})") from None


def _a(kind: type) -> str:
    return "None" if kind is type(None) else f"{'an' if kind is int else 'a'} {kind.__name__}"


def _kind(data: object) -> str:
    names: dict[type, str] = {str: "a text", type(None): "null", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(data), f"a {type(data).__name__}")
