"""Limits and rates: what may be written in a declaration."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NoReturn, assert_type

from redisjobs import App, Call, Context, Limit, Rate, RateLimited

app: App[Any] = App(queue_limits={"mail": Limit(10), "slow": [Limit(2), Rate(5, per=timedelta(minutes=1), burst=2)]})


@app.job(limit=3)
async def number(n: int) -> int:
    return n


@app.job(limit=Limit(3, key="tenant", name="api", weight=4), rate=Rate(100, per=60))
def keyed(tenant: str) -> None: ...


def tenant_of(tenant: str) -> str:
    return tenant.lower()


def weight_of(size: int) -> int:
    return 1 + size // 1000


@app.job(limits=[Limit(3, key=tenant_of, weight=weight_of), Rate(1, 60, key="tenant")])
async def computed(ctx: Context, tenant: str, size: int) -> None:
    if size > 3:
        assert_type(ctx.rate_limited(30), NoReturn)
    raise RateLimited(timedelta(seconds=3))


assert_type(number.call(3), Call[int])
