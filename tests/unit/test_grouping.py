"""What a call says of the others of its queue: lane, share and policy, from the declaration and from `using`."""

from __future__ import annotations

from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from redisjobs import App, Call, Debounce, EnqueueError, OptionError, Singleton, Throttle

CUSTOMER = UUID("0192d3a4-0000-7000-8000-000000000001")


class Region(Enum):
    EU = "eu"


def groups(call: Call[Any]) -> dict[str, Any]:
    names = ("lane", "share_key", "idempotency_key", "key_policy", "key_window", "key_wait", "key_longest")
    return {name: getattr(call, name) for name in names if getattr(call, name) is not None}


def test_a_plain_job_has_no_groups():
    @App("shop").job
    async def mail(to: str) -> None: ...

    assert groups(mail.call("a")) == {}


def test_a_key_is_an_argument_or_is_computed_from_arguments_by_their_names_defaults_included():
    @App("shop").job(lane="customer", share=lambda region, tier: f"{region.value}/{tier}")
    async def sync(customer: UUID, region: Region, *, tier: int = 3) -> None: ...

    assert groups(sync.call(CUSTOMER, Region.EU)) == {"lane": str(CUSTOMER), "share_key": "eu/3"}
    assert groups(sync.call(CUSTOMER, region=Region.EU, tier=1))["share_key"] == "eu/1"


def test_a_call_names_its_own_lane_and_share():
    @App("shop").job(lane="customer")
    async def sync(customer: int) -> None: ...

    assert groups(sync.using(lane="one", share="two").call(7)) == {"lane": "one", "share_key": "two"}


def test_a_key_that_is_none_leaves_the_call_alone():
    @App("shop").job(lane="tenant", throttle=Throttle(period=60, key="tenant"))
    async def sync(tenant: str | None) -> None: ...

    assert groups(sync.call(None)) == {}
    assert groups(sync.using(idempotency_key="k", window=5).call(None)) == {"idempotency_key": "k", "key_window": 5.0}


def test_a_long_key_is_cut_and_stays_its_own():
    @App("shop").job(lane="url", singleton=Singleton(key="url"))
    async def fetch(url: str) -> None: ...

    one, other = (fetch.call("x" * 1000 + end) for end in "ab")

    assert one.lane != other.lane
    assert one.idempotency_key != other.idempotency_key
    assert len(one.lane or "") == 200
    assert len((one.idempotency_key or "").encode()) <= 512


def test_the_group_of_a_policy_is_within_its_job():
    app = App("shop")

    @app.job(throttle=Throttle(period=60, key="user"))
    async def sync(user: int) -> None: ...

    @app.job(debounce=Debounce(wait=5, longest=30))
    async def index(user: int) -> None: ...

    @app.job(singleton="replace")
    async def build() -> None: ...

    assert groups(sync.call(7)) == {"idempotency_key": "sync:7", "key_policy": "throttle", "key_window": 60.0}
    expected = {"idempotency_key": "index", "key_policy": "debounce", "key_wait": 5.0, "key_longest": 30.0}
    assert groups(index.call(7)) == expected
    assert groups(build.call()) == {"idempotency_key": "build", "key_policy": "replace"}


def test_the_policy_of_a_call_takes_the_place_of_the_declared_one():
    @App("shop").job(throttle=Throttle(period=60, key="user"))
    async def sync(user: int) -> None: ...

    own = sync.using(debounce=Debounce(wait=1), idempotency_key="all").call(7)
    assert groups(own) == {"idempotency_key": "all", "key_policy": "debounce", "key_wait": 1.0}
    assert groups(sync.using(singleton="skip").call(7)) == {"idempotency_key": "sync", "key_policy": "skip"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"throttle": Throttle(period=1), "debounce": Debounce(wait=1)}, "and so does debounce"),
        ({"throttle": 5}, r"is a int: pass Throttle\(…\)"),
        ({"singleton": "cancel"}, "pass 'skip' or 'replace'"),
        ({"lane": "custmer"}, "names 'custmer', which job 'sync' does not take"),
        ({"lane": "customer", "lane_on_failure": "stop"}, "lane_on_failure .*is unknown: pass 'block' or 'skip'"),
        ({"share": lambda tenant: tenant}, "names 'tenant'"),  # pyright: ignore[reportUnknownLambdaType]
        ({"lane": "a b"}, "computes no key"),
        ({"lane": lambda *names: names}, "by position"),  # pyright: ignore[reportUnknownLambdaType]
    ],
)
def test_a_declaration_that_cannot_work_is_refused(options: Any, text: str):
    async def sync(customer: int) -> None: ...

    with pytest.raises(OptionError, match=text):
        App("shop").job(**options)(sync)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Throttle(period=0), "over before it began"),
        (lambda: Debounce(wait=5, longest=4), "is below wait"),
        (lambda: Debounce(wait=1, key="a b"), "computes no key"),
    ],
)
def test_a_policy_out_of_its_range_is_refused(make: Any, text: str):
    with pytest.raises(OptionError, match=text):
        make()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"debounce": Debounce(wait=1), "delay": 5}, "says when to run"),
        ({"throttle": Throttle(period=1, key="customer"), "idempotency_key": "k"}, "pass one of them"),
        ({"throttle": Throttle(period=1), "idempotency_key": "k", "window": 5}, "leave it out"),
        ({"lane": ""}, "has 0 characters"),
    ],
)
def test_options_of_a_call_that_contradict_each_other_are_refused(options: Any, text: str):
    @App("shop").job
    async def sync(customer: int) -> None: ...

    with pytest.raises(OptionError, match=text):
        sync.using(**options)


@pytest.mark.parametrize("options", [{"idempotency_key": "k"}, {"delay": 5}])
def test_options_of_a_call_for_which_the_declared_policy_has_no_room_are_refused(options: Any):
    @App("shop").job(debounce=Debounce(wait=5))
    async def sync() -> None: ...

    with pytest.raises(OptionError, match=r"Debounce\(…\)"):
        sync.using(**options).call()


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.5, "is a float"), ([], "is a list"), ("", "empty text"), ("a\0b", "NUL"), (KeyError, "KeyError")],
)
def test_a_key_that_cannot_be_one_is_refused_before_anything_is_written(value: Any, text: str):
    def computed(customer: int) -> object:
        if value is KeyError:
            raise KeyError(customer)
        return value

    @App("shop").job(lane=computed)
    async def sync(customer: int) -> None: ...

    with pytest.raises(EnqueueError, match=text):
        sync.call(1)
