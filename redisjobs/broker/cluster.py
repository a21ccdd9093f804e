"""A cluster behind the face of one server: `execute_command`, `pipeline` and `close`, as much as we use of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from redis import exceptions

from redisjobs.broker.routing import LOST, Answer, Command, Pause, Router, Send, Step, Talk
from redisjobs.broker.slots import Argument, Place

MakeNode: TypeAlias = Callable[[Place], Any]
"""A client of one node; nothing connects before its first command."""


class Cluster:
    """For an event loop. Calls may go side by side."""

    def __init__(self, seeds: Sequence[Place], make: MakeNode) -> None:
        self._router, self._nodes = Router(seeds), _Nodes(make)

    async def execute_command(self, *words: Argument, **options: Any) -> Any:
        """One command; errors are redis-py's."""
        return _one(await self._drive(self._router.call([Command(words, options)])))

    def pipeline(self, *, transaction: bool) -> Pipeline:
        """Commands to be sent together, over any nodes; nothing holds them together but that."""
        return Pipeline(self, transaction=transaction)

    async def send(self, commands: Sequence[Command], *, apart: bool = False) -> list[Any]:
        """As `Router.call`."""
        return await self._drive(self._router.call(commands, apart=apart))

    async def nodes(self) -> list[Any]:
        """The client of each primary; close none of them."""
        return [self._nodes.at(place) for place in await self._drive(self._router.primaries())]

    async def aclose(self) -> None:
        """Close all connections."""
        for node in self._nodes.all():
            await node.aclose()

    async def _drive(self, talk: Talk) -> list[Any]:
        try:
            step = next(talk)
            while True:
                step = talk.send(await self._do(step))
        except StopIteration as end:
            found: list[Any] = end.value
            return found

    async def _do(self, step: Step) -> list[Answer]:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return []
        if len(step) == 1:
            return [await self._ask(step[0])]
        return list(await asyncio.gather(*map(self._ask, step)))

    async def _ask(self, send: Send) -> Answer:
        node = self._nodes.at(send.place)
        try:
            if len(send.commands) == 1:
                return [await _alone(node, send.commands[0])]
            pipeline = node.pipeline(transaction=False)
            for words, options in send.commands:
                pipeline.execute_command(*words, **options)
            replies: list[Any] = await pipeline.execute(raise_on_error=False)
        except LOST as error:
            return error
        return replies


class Pipeline:
    """Commands that wait for `execute`."""

    def __init__(self, cluster: Cluster, *, transaction: bool) -> None:
        assert not transaction, "a transaction is of one node"  # noqa: S101 - ours, and nobody asks for one
        self._cluster, self._commands = cluster, list[Command]()

    def execute_command(self, *words: Argument, **options: Any) -> None:
        """One more."""
        self._commands.append(Command(words, options))

    async def execute(self, raise_on_error: bool = True, *, apart: bool = False) -> list[Any]:  # noqa: FBT001, FBT002
        """The replies in order; `apart`: what no node answered is one too."""
        commands, self._commands = self._commands, []
        return _whole(await self._cluster.send(commands, apart=apart), strict=raise_on_error)


class SyncCluster:
    """For threads, any number of them."""

    def __init__(self, seeds: Sequence[Place], make: MakeNode) -> None:
        self._router, self._nodes = Router(seeds), _Nodes(make)

    def execute_command(self, *words: Argument, **options: Any) -> Any:
        """One command; errors are redis-py's."""
        return _one(self._drive(self._router.call([Command(words, options)])))

    def pipeline(self, *, transaction: bool) -> SyncPipeline:
        """As `Cluster.pipeline`."""
        return SyncPipeline(self, transaction=transaction)

    def send(self, commands: Sequence[Command]) -> list[Any]:
        """As `Router.call`."""
        return self._drive(self._router.call(commands))

    def nodes(self) -> list[Any]:
        """As `Cluster.nodes`."""
        return [self._nodes.at(place) for place in self._drive(self._router.primaries())]

    def close(self) -> None:
        """Close all connections."""
        for node in self._nodes.all():
            node.close()

    def _drive(self, talk: Talk) -> list[Any]:
        try:
            step = next(talk)
            while True:
                step = talk.send(self._do(step))
        except StopIteration as end:
            found: list[Any] = end.value
            return found

    def _do(self, step: Step) -> list[Answer]:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return []
        return [self._ask(send) for send in step]

    def _ask(self, send: Send) -> Answer:
        node = self._nodes.at(send.place)
        try:
            pipeline = node.pipeline(transaction=False)
            for words, options in send.commands:
                pipeline.execute_command(*words, **options)
            replies: list[Any] = pipeline.execute(raise_on_error=False)
        except LOST as error:
            return error
        return replies


class SyncPipeline:
    """As `Pipeline`, for a thread."""

    def __init__(self, cluster: SyncCluster, *, transaction: bool) -> None:
        assert not transaction, "a transaction is of one node"  # noqa: S101 - ours, and nobody asks for one
        self._cluster, self._commands = cluster, list[Command]()

    def execute_command(self, *words: Argument, **options: Any) -> None:
        """One more."""
        self._commands.append(Command(words, options))

    def execute(self, raise_on_error: bool = True) -> list[Any]:  # noqa: FBT001, FBT002 - as redis-py has it
        """The replies in order."""
        commands, self._commands = self._commands, []
        return _whole(self._cluster.send(commands), strict=raise_on_error)


class _Nodes:
    """The clients of the nodes, made when they are first needed."""

    def __init__(self, make: MakeNode) -> None:
        self._make, self._made = make, dict[Place, Any]()

    def at(self, place: Place) -> Any:
        found = self._made.get(place)
        return self._made.setdefault(place, self._make(place)) if found is None else found

    def all(self) -> list[Any]:
        return list(self._made.values())


async def _alone(node: Any, command: Command) -> Any:
    """One command by itself; a script takes the short way."""
    words, options = command
    try:
        if str(words[0]) in ("EVALSHA", "EVAL"):
            return await node.once(*words)
        return await node.execute_command(*words, **options)
    except LOST:
        raise
    except exceptions.ResponseError as error:
        return error


def _one(replies: list[Any]) -> Any:
    return _whole(replies, strict=True)[0]


def _whole(replies: list[Any], *, strict: bool) -> list[Any]:
    if strict:
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
    return replies
