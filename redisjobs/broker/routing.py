"""How commands find their nodes, without doing any I/O: who waits for answers drives it, async or in a thread.

A command goes to the node that has its keys. MOVED, ASK and TRYAGAIN say that it was not carried out, so it is sent
anew. A lost connection leaves that open, as ever: it is told, and only the map is asked for again.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from redis import exceptions

from redisjobs.broker.slots import Argument, Place, Slots, pointed_to, slot_of

MOST_HOPS = 8
"""Redirections of one command; a slot that moves while it is looked for needs one or two."""
TRY_AGAIN_S = 0.05
MOST_TRIES = 20
"""While a slot is being moved, some of its keys are on either side: so often a command waits for the others to come."""

LOST = (exceptions.ConnectionError, exceptions.TimeoutError, OSError)
_MAP = ("CLUSTER", "SLOTS")


class Command(NamedTuple):
    """Words, and what redis-py is told on how to read the reply."""

    words: Sequence[Argument]
    options: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Send:
    """Commands for one node, in one round trip. The answer: a list of replies, a refusal being one; or what lost it."""

    place: Place
    commands: Sequence[Command]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for so many seconds."""

    seconds: float


Step: TypeAlias = list[Send] | Pause
Answer: TypeAlias = list[Any] | BaseException
Talk: TypeAlias = Generator[Step, list[Answer], list[Any]]
"""What yields a list of sends gets as many answers, in that order."""


class Router:
    """Leads commands to the nodes of a cluster.

    Args:
        seeds: the nodes that the URL names.
    """

    def __init__(self, seeds: Sequence[Place]) -> None:
        self.slots = Slots(seeds)

    def call(self, commands: Sequence[Command], *, apart: bool = False) -> Talk:
        """The replies, in order; what was refused is an exception among them.

        Args:
            apart: so is what a lost connection leaves open; without, the first of those is raised.

        Raises:
            exceptions.ConnectionError, exceptions.TimeoutError, OSError: no answer from a node, or from none at all.
        """
        slots, replies = _slots_of(commands), list[Any]([None] * len(commands))
        todo: list[int] = list(range(len(commands)))
        hops = tries = 0
        while todo:
            if self.slots.stale:
                yield from self._learn()
            found = yield from self._send({at: commands[at] for at in todo}, slots)
            for at, reply in found.items():
                replies[at] = reply
            moved = [at for at in todo if isinstance(replies[at], exceptions.MovedError) and hops < MOST_HOPS]
            torn = [at for at in todo if isinstance(replies[at], exceptions.TryAgainError) and tries < MOST_TRIES]
            todo = [*moved, *torn]
            hops, tries = hops + bool(moved), tries + bool(torn)
            if torn:
                yield Pause(TRY_AGAIN_S)
        return _told(replies, apart=apart)

    def primaries(self) -> Talk:
        """The places of all primaries, asked for anew.

        Raises:
            exceptions.ConnectionError, exceptions.TimeoutError, OSError: no node answers.
            exceptions.ResponseError: the one that does refuses.
        """
        yield from self._learn()
        return self.slots.primaries()

    def _learn(self) -> Generator[Step, list[Answer], None]:
        """Ask one node after the other for the map, until one has it."""
        error: BaseException = exceptions.ConnectionError("no node of the cluster is known")
        for place in self.slots.to_ask():
            (answer,) = yield [Send(place, [Command(_MAP)])]
            if isinstance(answer, BaseException):
                self.slots.failed(place)
                error = answer
            elif isinstance(answer[0], BaseException):
                error = answer[0]
            elif answer[0]:
                self.slots.read(answer[0], place)
                return
            else:
                error = exceptions.ClusterDownError(f"{place} belongs to no cluster that has slots")
        raise error

    def _place(self, slot: int | None) -> Place | None:
        if slot is not None:
            return self.slots.owner(slot)
        primaries = self.slots.primaries()
        return primaries[0] if primaries else None

    def _send(
        self, commands: Mapping[int, Command], slots: Sequence[int | None]
    ) -> Generator[Step, list[Answer], dict[int, Any]]:
        """Each to its node, and where that one points to; the reply of each."""
        there, found = dict[Place, list[int]](), dict[int, Any]()
        for at in commands:
            if (place := self._place(slots[at])) is None:
                found[at] = exceptions.ClusterDownError(f"no node serves slot {slots[at]}")
                self.slots.stale = True
            else:
                there.setdefault(place, []).append(at)
        answers: list[Answer] = []
        if there:
            answers = yield [Send(place, [commands[at] for at in ats]) for place, ats in there.items()]
        for (place, ats), answer in zip(there.items(), answers, strict=True):
            if isinstance(answer, BaseException):
                self.slots.failed(place)
                found.update(dict.fromkeys(ats, answer))
                continue
            for at, reply in zip(ats, answer, strict=True):
                found[at] = yield from self._follow(reply, place, commands[at])
        return found

    def _follow(self, reply: Any, asked: Place, command: Command) -> Generator[Step, list[Answer], Any]:
        """MOVED changes the map, ASK leads elsewhere this once."""
        if isinstance(reply, exceptions.MovedError):
            self.slots.moved(reply.slot_id, pointed_to(reply, asked))
        elif isinstance(reply, exceptions.ClusterDownError):
            self.slots.stale = True
        elif isinstance(reply, exceptions.AskError):
            place = pointed_to(reply, asked)
            (answer,) = yield [Send(place, [Command(("ASKING",)), command])]
            return answer if isinstance(answer, BaseException) else answer[1]
        return reply


def _slots_of(commands: Sequence[Command]) -> list[int | None]:
    """The slot of each; what has no key goes with the first that has: a clock is asked beside what it is to time."""
    slots = [slot_of(command.words) for command in commands]
    first = next((slot for slot in slots if slot is not None), None)
    return [first if slot is None else slot for slot in slots]


def _told(replies: list[Any], *, apart: bool) -> list[Any]:
    for at, reply in enumerate(replies):
        if isinstance(reply, exceptions.AskError):
            replies[at] = exceptions.TryAgainError(f"its slot is being moved: {reply}")
        elif isinstance(reply, LOST) and not apart:
            raise reply
    return replies
