"""The decisions of durable runs, without stores (rules T2, T4, T6, T10)."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from redisjobs import App, Backoff, Context, OptionError
from redisjobs.base.codec import Codecs
from redisjobs.durable import StepOptions, Wait
from redisjobs.errors import Cancel, ChildFailed, StepFailed, StepTimeoutError, Suspend
from redisjobs.runs.ends import is_rewound, suspension_in
from redisjobs.runs.failures import detail_of, failed_steps, failure_of
from redisjobs.runs.left import Left, LeftAsync, LeftSync
from redisjobs.runs.strands import Strands
from redisjobs.runs.values import Values
from redisjobs.runs.work import is_async
from redisjobs.steps import StepRecord


@dataclasses.dataclass
class Order:
    number: int


def record(**fields: Any) -> StepRecord:
    return StepRecord(uuid4(), "charge", **fields)


# -- values
async def ordered() -> Order:
    return Order(7)


def awaitable() -> Awaitable[Order]:
    return ordered()


class Bank:
    def charge(self) -> tuple[Order, ...]:
        return (Order(7),)

    def __call__(self) -> Order:
        return Order(7)


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (ordered, Order(7)),
        (awaitable, Order(7)),
        (Bank().charge, (Order(7),)),
        (Bank(), Order(7)),
        (functools.partial(Bank.charge, Bank()), (Order(7),)),
        (lambda: None, {"a": [1, (2, 3)], "at": datetime(2026, 1, 2, tzinfo=UTC)}),
        (lambda: None, None),
    ],
)
def test_a_value_is_read_from_its_record_as_it_was_written_in_type_too(function: Any, value: Any) -> None:
    values, written = Values.of(Codecs(), function), record()
    values.write(written, value)
    read = values.read(written)
    assert (read, type(read)) == (value, type(value))


def test_what_a_function_inside_of_another_returns_is_known_by_its_closure() -> None:
    @dataclasses.dataclass
    class Local:
        number: int

    def make() -> Local:
        return Local(1)

    values, written = Values.of(Codecs(), make), record()
    values.write(written, Local(2))
    assert values.read(written) == Local(2)


# -- failures
def test_a_failure_is_the_same_from_its_record() -> None:
    failed = record(state="failed", tries=3, detail=detail_of(ConnectionError("away")))
    assert str(failure_of(failed)) == "step 'charge' failed after 3 tries: ConnectionError: away"
    late = record(state="failed", tries=1, detail=detail_of(TimeoutError("5 s"), timed_out=True))
    assert type(failure_of(late)) is StepTimeoutError
    child = record(kind="child", child=uuid4(), state="failed", detail={"word": "cancelled"})
    found = failure_of(child)
    assert isinstance(found, ChildFailed)
    assert (found.word, found.child) == ("cancelled", str(child.child))


def test_the_steps_behind_an_error_are_found_wherever_they_stand() -> None:
    beside = StepFailed("a", "x")
    beside.beside = (StepFailed("b", "x"), ValueError())
    outer = ValueError()
    outer.__cause__ = ExceptionGroup("several", [KeyError(), beside])
    outer.__context__ = StepFailed("c", "x")
    outer.__context__.__context__ = outer
    assert sorted(failed_steps(outer)) == ["a", "b", "c"]
    assert failed_steps(None) == failed_steps(ValueError()) == []


# -- ends
def test_a_suspension_is_found_in_groups_and_several_are_one() -> None:
    first, second = Suspend(5.0, waits=False), Suspend(None, waits=True)
    group = BaseExceptionGroup("tasks", [ValueError(), BaseExceptionGroup("inner", [first, second])])
    found = suspension_in(group)
    assert found is not None
    assert (found.after, found.waits) == (5.0, True)
    assert suspension_in(ValueError()) is suspension_in(None) is None
    assert not is_rewound(group)


# -- strands
async def test_a_gather_is_suspended_only_when_no_branch_can_go_on() -> None:
    strands, seen = Strands(), list[str]()

    async def blocks(left: float | None) -> None:
        await strands.blocked(left, waits=left is None)
        seen.append("woke")

    async def works() -> str:
        await asyncio.sleep(0.05)
        seen.append("worked")
        return "done"

    with pytest.raises(Suspend) as raised:
        inner = strands.gather([blocks(600)], return_exceptions=False)
        await strands.gather([blocks(6000), works(), blocks(None), inner], return_exceptions=False)
    assert seen == ["worked"]
    assert raised.value.waits
    assert raised.value.after is not None
    assert 500 < raised.value.after <= 600
    assert strands.suspended is raised.value


async def test_a_branch_whose_time_comes_while_others_work_goes_on() -> None:
    strands, woke = Strands(), asyncio.Event()

    async def naps() -> str:
        await strands.blocked(0.02, waits=False)
        woke.set()
        return "woke"

    async def works() -> str:
        await woke.wait()
        return "worked"

    assert await strands.gather([naps(), works()], return_exceptions=False) == ["woke", "worked"]
    assert strands.suspended is None


async def test_a_gather_waits_for_all_and_raises_the_first_error_with_those_beside_it() -> None:
    async def fails(step: str) -> None:
        raise StepFailed(step, "x")

    async def works() -> int:
        await asyncio.sleep(0.02)
        return 1

    with pytest.raises(StepFailed) as raised:
        await Strands().gather([works(), fails("a"), fails("b")], return_exceptions=False)
    assert raised.value.step == "a"
    assert [getattr(each, "step", None) for each in raised.value.beside] == ["b"]
    one, error = await Strands().gather([works(), fails("a")], return_exceptions=True)
    assert one == 1
    assert isinstance(error, StepFailed)


async def test_a_signal_in_a_branch_ends_the_others() -> None:
    ended = list[str]()

    async def goes_on() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("ended")

    async def cancels() -> None:
        await asyncio.sleep(0.01)
        raise Cancel

    with pytest.raises(Cancel):
        await Strands().gather([goes_on(), cancels()], return_exceptions=False)
    assert ended == ["ended"]


# -- what a body may ask for
def test_a_step_is_tried_as_often_as_its_options_say() -> None:
    assert StepOptions().most_tries == 1
    assert StepOptions(tries=4).most_tries == 4
    assert StepOptions(retry=[1, 2]).most_tries == 3
    assert StepOptions(retry=Backoff()).most_tries == 5
    assert StepOptions(retry=lambda _, __: 1.0, tries=2).most_tries == 2


@pytest.mark.parametrize(
    "options",
    [{"tries": 0}, {"timeout": 0}, {"retry": []}, {"undo": 5}, {"tries": True}],
)
def test_options_of_a_step_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        StepOptions(**options)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201, "undo:charge", 5, "\ud800"])
async def test_a_name_that_no_record_can_have_is_refused_where_it_is_written(name: Any) -> None:
    with pytest.raises(OptionError):
        await Context.detached("job").step(name, ordered)


def test_a_wait_is_named_by_its_event_and_key_where_it_has_no_name() -> None:
    assert Wait("approved", "7").step == "approved/7"
    assert Wait("approved", "").step == "approved"
    assert Wait("approved", "x" * 300, step="late").step == "late"
    with pytest.raises(OptionError, match="pass step="):
        Wait("approved", "x" * 300)


@pytest.mark.parametrize("kind", [LeftAsync, LeftSync])
def test_the_connection_of_a_committed_block_is_a_connection_and_leaves_at_its_first_use(kind: Any) -> None:
    left = kind()
    assert isinstance(left, (psycopg.AsyncConnection, psycopg.Connection))
    with pytest.raises(Left):
        left.execute("SELECT 1")


def test_async_functions_are_known_in_every_form() -> None:
    class Async:
        async def __call__(self) -> None: ...

    assert is_async(ordered)
    assert is_async(functools.partial(ordered))
    assert is_async(Async())
    assert not is_async(awaitable)


# -- outside of a worker
app = App("runs")


@app.job
async def child() -> int:
    return 1


async def test_a_body_that_is_called_directly_runs_its_steps_plainly() -> None:
    @app.job(name="direct")
    async def direct(ctx: Context, n: int) -> list[Any]:
        await ctx.sleep("nap", 0)
        one, two = await ctx.gather(ctx.step("one", ordered), ctx.step("two", lambda: n))
        return [one, two, await ctx.step("one", ordered)]

    assert await direct(5) == [Order(7), 5, Order(7)]

    @app.job(name="direct in thread")
    def in_thread(ctx: Context) -> int:
        ctx.sync.sleep("nap", 0)
        return ctx.sync.step("one", lambda: 1)

    assert in_thread() == 1


async def test_a_body_that_is_called_directly_is_refused_what_needs_a_run() -> None:
    ctx = Context.detached("ship")
    for asked in (
        lambda: ctx.call(child),
        lambda: ctx.start(child),
        lambda: ctx.wait_for_event("approved"),
        lambda: ctx.transaction("move", _move),
    ):
        with pytest.raises(Exception, match="'ship' was called directly, outside of a worker"):
            await asked()
    with pytest.raises(Exception, match="called directly"):
        ctx.transaction("move")


async def _move(tx: psycopg.AsyncConnection[Any]) -> None:
    del tx
