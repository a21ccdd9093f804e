"""A declared batch job: its function takes the calls of a batch, and each of them is enqueued by itself."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ParamSpec, TypeVar, get_args, get_origin

from redisjobs.base.durations import Duration
from redisjobs.base.signature import Signature
from redisjobs.batch import BatchCall, BatchContext, said, settle
from redisjobs.batching import Batching, Key
from redisjobs.context import Context, current
from redisjobs.declaration import CommonOptions, Declaration, own_name
from redisjobs.errors import ConfigurationError, OptionError
from redisjobs.job import AsyncJob, Door, Job, SyncJob
from redisjobs.policy import Debounce, Singleton, Throttle

P = ParamSpec("P")
R = TypeVar("R")

ARGUMENT = "argument"
"""The name under which a call's one argument travels."""

_UNFIT: Mapping[str, str] = {
    "process": "runs one call in a process of its own, and a batch has many: leave it out, a plain function runs in a "
    "thread",
    "transactional": "commits what the body writes together with the end of one job, and a batch has many: leave it "
    "out, or declare the function with @app.job",
    "limit": "holds for one call at a time, and a batch runs many at once: leave it out, and say how many by size=…",
    "limits": "hold for one call at a time, and a batch runs many at once: leave them out, or give its queue "
    "App(queue_limits=…)",
    "rate": "holds for one call at a time, and a batch runs many at once: leave it out, or give its queue "
    "App(queue_limits=…)",
}


_KEYED = ("lane", "share", "throttle", "debounce", "singleton")
"""The options by which keys are computed of a call, before it is enqueued."""


class BatchOptions(CommonOptions, total=False):
    """What may be written in `@app.batch_job(...)`: `Batching` and `Declaration` say what each means."""

    size: int
    within: Duration
    key: Key | None
    split: bool


def declare_batch(function: Callable[..., Any], options: BatchOptions) -> Declaration:
    """The declaration of a batch job with these options.

    Raises:
        OptionError: an option that does not exist, does not fit a batch, or is out of its range.
    """
    for option in options.keys() - BatchOptions.__annotations__.keys():
        known = ", ".join(BatchOptions.__annotations__)
        raise OptionError(
            option, options.get(option), _UNFIT.get(option, f"is no option of a batch job: it has {known}")
        )
    of_batch = Batching.__dataclass_fields__.keys()
    given: dict[str, Any] = {name: value for name, value in options.items() if name not in of_batch}
    given |= {name: _of_argument(given[name]) for name in _KEYED if name in given}
    gathered: dict[str, Any] = {name: value for name, value in options.items() if name in of_batch}
    given.setdefault("name", own_name(function))
    return Declaration(**given, batching=Batching(**gathered))


def _of_argument(rule: Any) -> Any:
    """A rule by which a key is computed: a function of one parameter is given the argument, whatever it calls it."""
    if isinstance(rule, (Throttle, Debounce, Singleton)):
        return replace(rule, key=_of_argument(rule.key))
    if not isinstance(rule, types.FunctionType) or len(inspect.signature(rule).parameters) != 1:
        return rule

    def key(argument: Any) -> object:
        return rule(argument)

    return key


class BatchJob(Job[P, R]):
    """A function declared as a batch job: it takes calls of one argument, `list[BatchCall[T]]`.

    `job.enqueue(connection, argument)` enqueues one call, as for any job; `job(argument)` runs the function here and
    now, with a batch of this one call.
    """

    def __init__(self, function: Callable[..., Any], declaration: Declaration, door: Door) -> None:
        super().__init__(function, declaration, door)
        self.batching = declaration.batching or Batching()

    def _signature(self, of_function: Signature) -> Signature:
        self._wants_context = len(of_function.declared.parameters) == 2
        return _OneArgument(of_function)

    def invoke_batch(self, context: BatchContext[Any]) -> Any:
        """Call the function with the calls of a batch: what it returns, and for an async one its coroutine."""
        if self._wants_context:
            return self.function(context, context.calls)
        return self.function(context.calls)

    def _one(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[BatchContext[Any], BatchCall[Any]]:
        """The batch of a direct call."""
        bound = self.signature.bind(args, kwargs)
        around = current()
        call: BatchCall[Any] = BatchCall(args[0] if args else kwargs[ARGUMENT], Context.detached(self.name, self.queue))
        del bound  # it was only checked
        state = None if around is None else around.state
        return BatchContext(call.id, self.name, self.queue, state=state, calls=[call]), call


class AsyncBatchJob(BatchJob[P, R], AsyncJob[P, R]):
    """A batch job whose function is async."""

    def _call_here(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        context, call = self._one(args, kwargs)
        return _answered(self.invoke_batch(context), call)


class SyncBatchJob(BatchJob[P, R], SyncJob[P, R]):
    """A batch job whose function is an ordinary one; a worker runs it in a thread."""

    def _call_here(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        context, call = self._one(args, kwargs)
        return _answer(call, self.invoke_batch(context))


BATCH_KINDS: dict[bool, type[BatchJob[Any, Any]]] = {True: AsyncBatchJob, False: SyncBatchJob}


class _OneArgument(Signature):
    """The signature of a batch job's calls: one argument, of the type that the body's annotation says.

    Args:
        body: that of the function.
    """

    def __init__(self, body: Signature) -> None:
        self._body = body
        super().__init__(body.name, _one_argument, Context)
        parameters = list(body.declared.parameters.values())
        if not _is_given_a_list(parameters):
            raise ConfigurationError(
                f"batch job {body.name!r}: its function takes ({', '.join(body.declared.parameters)}), and it is given "
                "one list: write `calls: list[BatchCall[T]]`, behind a `ctx: BatchContext` if it wants one"
            )

    @cached_property
    def takes_context(self) -> bool:
        """Never: a call's one argument is no context."""
        return False

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The annotations of one call, from those of the body."""
        hints = self._body.hints
        calls = hints.get(list(self._body.declared.parameters)[-1])
        found = {"return": _result_in(hints["return"])} if "return" in hints else {}
        return found | {ARGUMENT: _argument_in(calls)}

    @cached_property
    def _plan(self) -> Any:
        parameter = self.declared.parameters[ARGUMENT]
        return self._plan_of([parameter.replace(annotation=self.hints[ARGUMENT])])


_CONTEXT = re.compile(r"(?:\w+\.)*(?:Batch)?Context(?:\[|$)")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _is_given_a_list(parameters: list[inspect.Parameter]) -> bool:
    """Whether a body takes a list of calls, alone or behind a context; as written, for names may come later."""
    if any(each.kind not in _POSITIONAL for each in parameters):
        return False
    first = getattr(parameters[0].annotation, "__forward_arg__", parameters[0].annotation) if parameters else None
    written = first if isinstance(first, str) else inspect.formatannotation(first)
    return len(parameters) == (2 if _CONTEXT.match(written.strip("'\"")) else 1)


def _one_argument(argument: Any) -> None:
    """What a call of a batch job takes."""


def _argument_in(annotation: Any) -> Any:
    """The type of the argument, in the annotation of the calls; Any where it says none."""
    if _is_unresolved(annotation):
        return annotation
    for each in get_args(getattr(annotation, "__value__", annotation)):
        if get_origin(each) is BatchCall:
            return get_args(each)[0]
    return Any


def _result_in(annotation: Any) -> Any:
    """The type of one call's result, in the annotation of what the body returns."""
    if annotation in (None, type(None)) or _is_unresolved(annotation):
        return annotation
    if get_origin(annotation) in (typing.Union, types.UnionType):
        some = [each for each in get_args(annotation) if each is not type(None)]
        return _result_in(some[0]) if len(some) == 1 else Any
    parts = [each for each in get_args(annotation) if each is not Ellipsis]
    return parts[0] if len(parts) == 1 else Any


def _is_unresolved(annotation: Any) -> bool:
    """Whether it names what is not known, which whoever uses it is told."""
    return isinstance(annotation, (str, typing.ForwardRef))


async def _answered(body: Awaitable[Any], call: BatchCall[Any]) -> Any:
    return _answer(call, await body)


def _answer(call: BatchCall[Any], returned: object) -> Any:
    settle([call], returned)
    result, error = said(call) or (None, None)
    if error is not None:
        raise error
    return result
