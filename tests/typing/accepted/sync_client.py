"""A sync program gets the types of the job's function back."""

from __future__ import annotations

from typing import assert_type

from redisjobs import App, Handle, SyncClient
from redisjobs.job import AsyncJob


def ask(app: App, add: AsyncJob[[int, int], int]) -> None:
    with SyncClient(app) as client:
        handle = client.enqueue_direct_one(add.call(1, 2))
        assert_type(handle, Handle[int])
        assert_type(client.result(handle, timeout=5), int)
        assert_type(client.holder("default", "k"), str | None)
