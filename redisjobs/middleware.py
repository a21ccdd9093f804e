"""What an app puts around its calls as they go in, and around each attempt as it runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from redisjobs.call import Options
from redisjobs.context import Context
from redisjobs.errors import ConfigurationError

Next: TypeAlias = Callable[[], Awaitable[Any]]
"""Goes on: to the next middleware, and at last to the body; answers what it returned, raises what it raised."""
Middleware: TypeAlias = Callable[[Context[Any], Next], Awaitable[Any]]
"""`async def around(ctx, call_next)`: its answer is the attempt's result, and its error the attempt's error."""
EnqueueMiddleware: TypeAlias = Callable[[str, Options], Options]
"""`def shape(job, options)`: the options with which a call of the job of this name goes in; it sends nothing."""

M = TypeVar("M", bound=Middleware)


def check(function: M) -> M:
    """The middleware, which is async and takes two arguments.

    Raises:
        ConfigurationError: it is none.
    """
    given = cast(object, function)
    call: object = given if inspect.isroutine(given) else getattr(given, "__call__", None)  # noqa: B004 - to look at it
    if not inspect.iscoroutinefunction(call):
        raise ConfigurationError(
            f"middleware {_name(function)} is not async: write `async def around(ctx, call_next)`, and in it "
            "`return await call_next()`"
        )
    _check_takes_two(function, "(ctx, call_next)")
    return function


def check_shape(function: EnqueueMiddleware) -> EnqueueMiddleware:
    """The enqueue middleware, which is a plain function of two arguments.

    Raises:
        ConfigurationError: it is none.
    """
    if inspect.iscoroutinefunction(function) or not callable(function):
        raise ConfigurationError(
            f"enqueue middleware {_name(function)} is no plain function: enqueuing waits for nothing; "
            "write `def shape(job, options)`, and in it `return options`"
        )
    _check_takes_two(function, "(job, options)")
    return function


def chain(middleware: Sequence[Middleware]) -> Middleware | None:
    """All of them as one: the first is the outermost; None: there are none."""
    if not middleware:
        return None
    if len(middleware) == 1:
        return middleware[0]
    outer, rest = middleware[0], cast(Middleware, chain(middleware[1:]))

    async def around(ctx: Context[Any], call_next: Next) -> Any:
        return await outer(ctx, functools.partial(rest, ctx, call_next))

    return around


def shaping(shapes: Sequence[EnqueueMiddleware]) -> EnqueueMiddleware | None:
    """All of them as one, each given what the one before it answered; None: there are none."""
    if not shapes:
        return None

    def shape(job: str, options: Options) -> Options:
        for each in shapes:
            options = each(job, options)
            if not isinstance(cast(object, options), Options):
                raise ConfigurationError(
                    f"enqueue middleware {_name(each)} answered a {type(options).__name__}: return the options, "
                    "changed by dataclasses.replace(options, …) or as they are"
                )
        return options

    return shape


def _check_takes_two(function: Callable[..., Any], parameters: str) -> None:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        raise ConfigurationError(f"middleware {_name(function)} does not take two arguments: {parameters}") from None


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))
