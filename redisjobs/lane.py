"""What a worker holds of one queue: its slots, and the attempts that occupy them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol, TypeAlias

from redisjobs.base.envelope import Envelope
from redisjobs.broker import Delivery, Finish
from redisjobs.context import Context
from redisjobs.errors import DecodeError
from redisjobs.limiting import Share
from redisjobs.outcome import Ended, Outcome
from redisjobs.permit import Permit
from redisjobs.progress import Reports
from redisjobs.tracing import trace_id

Token: TypeAlias = tuple[bytes, int]
"""A job id and which of its starts this is."""


TELL_AGAIN_S = 60.0
"""How often a name that nobody knows is told of again."""
NAMES_REMEMBERED = 1000


class Attempt:
    """One delivery on its way through the worker, from the reply that brought it to the accepted finish.

    Args:
        trusted_until: until when its lease is sure to be ours, in monotonic seconds. It counts from before the
            request was sent, so a slow reply makes it end early, never late. The heartbeat moves it on.
    """

    __slots__ = (
        "answer",
        "began_at",
        "body",
        "deadline",
        "delivery",
        "ended_by",
        "finish",
        "in_thread",
        "job",
        "lane",
        "live",
        "over",
        "permit",
        "renewed",
        "seat",
        "task",
        "trusted_until",
    )

    def __init__(self, lane: Lane, delivery: Delivery, trusted_until: float) -> None:
        self.lane = lane
        self.delivery = delivery
        self.trusted_until = trusted_until
        self.job = ""
        self.task: asyncio.Task[None] | None = None
        self.began_at: float | None = None
        self.deadline: float | None = None
        self.ended_by: Ended | None = None  # why its end was asked for, set before its body is cancelled
        self.in_thread = False
        self.live: Any = None  # what a durable body speaks to, once it has asked for its run
        self.seat: Any = None  # its place in a batch, once it gathers; from then on it has no slot of its own
        self.body: asyncio.Task[Any] | None = None  # of its batch, while that runs
        self.permit: Permit | None = None  # what it may hold of limits
        self.renewed = True
        self.over = False  # the body has ended
        self.finish: Finish | None = None
        self.answer = ""  # what Redis said to its finish

    def report(self, text: bytes) -> None:
        """Have this told of the attempt soon; only the latest is. From any thread."""
        self.lane.reports.put(self, text)

    @property
    def gathers(self) -> bool:
        """It waits for its batch to begin."""
        return self.seat is not None and self.began_at is None

    @property
    def job_id(self) -> str:
        """The job's id as people write it."""
        text = self.delivery.job_id.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def told(self) -> dict[str, Any]:
        """What every log line on it carries. It reads the envelope: ask for it where the line will be written."""
        try:
            envelope = Envelope.unpack(self.delivery.body)
            tenant_id, sent = envelope.tenant_id, envelope.traceparent
        except DecodeError:
            tenant_id = sent = None
        return {
            "job": self.job or None,
            "job_id": self.job_id,
            "queue": self.delivery.queue,
            "attempt": self.delivery.attempts + 1,
            "tenant_id": None if tenant_id is None else str(tenant_id)[:200],  # whatever somebody wrote there
            "trace_id": trace_id(sent),
        }


class Observer(Protocol):
    """Hears in the loop what becomes of attempts; it may not raise. Without one, an attempt costs nothing more."""

    def began(self, attempt: Attempt, context: Context) -> None:
        """Its body starts now; called in the task that runs it, whose context variables are the body's."""

    def ended(self, attempt: Attempt, outcome: Outcome, error: BaseException | None) -> None:
        """Its end is decided, whether its body was started or not; `error` is what the outcome came of."""

    def answered(self, attempt: Attempt, word: str) -> None:
        """The end of it as Redis knows it: the word of its outcome, or lost."""

    def batch(self, attempts: Sequence[Attempt]) -> AbstractContextManager[object]:
        """Around each run of a batch's body with these, in the task that runs it."""
        ...


class Observers:
    """Several, told in turn."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def began(self, attempt: Attempt, context: Context) -> None:
        for each in self._observers:
            each.began(attempt, context)

    def ended(self, attempt: Attempt, outcome: Outcome, error: BaseException | None) -> None:
        for each in self._observers:
            each.ended(attempt, outcome, error)

    def answered(self, attempt: Attempt, word: str) -> None:
        for each in self._observers:
            each.answered(attempt, word)

    @contextmanager
    def batch(self, attempts: Sequence[Attempt]) -> Generator[None]:
        with ExitStack() as stack:
            for each in self._observers:
                stack.enter_context(each.batch(attempts))
            yield


class Lane:
    """One queue as a worker serves it.

    A slot is taken while a body runs. Finishes that Redis has not accepted yet hold no slot, so that the next
    jobs run meanwhile, until there are as many of them as slots: then nothing more is taken. So a worker never
    holds more than twice its slots.

    The calls that gather for a batch hold none, and neither do those in one: a batch that runs is one slot. A batch
    that is ready goes before whatever might be taken.

    Args:
        lease: seconds.
    """

    def __init__(self, queue: str, consumer: str, slots: int, lease: float) -> None:
        self.queue = queue
        self.consumer = consumer
        self.slots = slots
        self.lease = lease
        self.held: set[Attempt] = set()
        self.running = 0
        """Slots that are taken."""
        self.gathered = 0
        """Attempts that gather, or are in a batch."""
        self.hurries = False
        """Batches wait for no further calls: what gathers in one turn of the loop runs."""
        self.counts: Counter[str] = Counter()
        self.reports: Reports[Attempt] = Reports()
        self.freed = asyncio.Event()
        self.asking = asyncio.Lock()
        """Held around each call that can bring deliveries, so that a recall sees none of them twice."""
        self.unsure = False
        """A call that may have brought deliveries ended in the unknown: recall before the next one."""
        self.send: Callable[[Attempt], None] = _nowhere
        self.on_delay: Callable[[float], None] = _ignore
        self.give_back: Callable[[Attempt], None] = _keep
        """Called for an ended attempt that may hold a permit."""
        self.limits: tuple[Share, ...] = ()
        """What every attempt of this queue wants."""
        self.observer: Observer | None = None
        self._reserved = 0
        self._batches = 0
        self._ready: deque[Callable[[], None]] = deque()
        self._told: dict[str, float] = {}

    @property
    def lease_ms(self) -> int:
        return round(self.lease * 1000)

    @property
    def free(self) -> int:
        """How many more deliveries may be asked for."""
        if self.unsent >= self.slots:
            return 0
        return max(0, self.slots - self.running - self._reserved - len(self._ready))

    @property
    def unsent(self) -> int:
        """How many ended attempts Redis has not been told of yet."""
        return len(self.held) - self.gathered - (self.running - self._batches)

    @contextmanager
    def reserve(self, most: int) -> Generator[int]:
        """Set free slots aside for the deliveries that a call may bring."""
        count = min(most, self.free)
        self._reserved += count
        try:
            yield count
        finally:
            self._reserved -= count
            self._hand_out()
            self.freed.set()

    def hold(self, delivery: Delivery, asked_at: float) -> Attempt:
        """Take a slot for a delivery that was asked for at that time."""
        attempt = Attempt(self, delivery, asked_at + self.lease)
        self.held.add(attempt)
        self.running += 1
        return attempt

    def hand_back(self, delivery: Delivery, asked_at: float) -> None:
        """Give a delivery back unstarted, at once and uncounted."""
        self.end(self.hold(delivery, asked_at), Finish(delivery, "released"))

    def end(self, attempt: Attempt, finish: Finish | None) -> None:
        """Its body has ended, or never began: give the slot back, and hand the outcome on where there is one."""
        if attempt.over:  # it was given up before it ended
            return
        attempt.over = True
        attempt.task = None
        if attempt.seat is None:
            self.running -= 1
            if self._ready:
                self._hand_out()
        else:
            self.gathered -= 1
        if finish is None:
            self.forget(attempt, "lost")
        else:
            attempt.finish = finish
            self.send(attempt)
            self.freed.set()

    # -- batches
    def gather(self, attempt: Attempt, seat: object) -> None:
        """It waits for a batch, or rides in one: its own slot is free again."""
        attempt.seat = seat
        self.gathered += 1
        self.running -= 1
        self._hand_out()
        self.freed.set()

    def batch_ready(self, start: Callable[[], None]) -> None:
        """Call `start` when there is a slot for a batch, which is then taken."""
        self._ready.append(start)
        self._hand_out()

    def batch_ended(self) -> None:
        """Give the slot of a batch back."""
        self.running -= 1
        self._batches -= 1
        self._hand_out()
        self.freed.set()

    def _hand_out(self) -> None:
        while self._ready and self.running + self._reserved < self.slots:
            self.running += 1
            self._batches += 1
            self._ready.popleft()()

    def forget(self, attempt: Attempt, answer: str) -> None:
        """Redis has accepted or refused its finish, or none will be sent: it is held no longer."""
        attempt.answer = answer
        self.held.discard(attempt)
        if attempt.permit is not None:
            self.give_back(attempt)
        finish = attempt.finish
        word = finish.word if finish is not None and answer in ("ok", "repeat") and finish.word != "over" else "lost"
        self.counts[word] += 1
        if self.observer is not None:
            self.observer.answered(attempt, word)
        if finish is not None and finish.delay_ms and finish.word != "suspended":  # that is in Redis no more
            self.on_delay(finish.delay_ms / 1000)
        self.freed.set()

    def first_of_late(self, job: str) -> bool:
        """Whether nobody was told of this unknown name within the last minute; from now on somebody was."""
        now = time.monotonic()
        if now - self._told.get(job, -TELL_AGAIN_S) < TELL_AGAIN_S:
            return False
        if len(self._told) >= NAMES_REMEMBERED:
            self._told.clear()
        self._told[job] = now
        return True

    def unheard_of(self, deliveries: list[Delivery], known: frozenset[Token]) -> list[Delivery]:
        """Those of a recall that were not known before it and are not held now."""
        held = self.tokens()
        return [each for each in deliveries if (token := (each.job_id, each.start)) not in known and token not in held]

    def tokens(self) -> frozenset[Token]:
        """The tokens of everything that is held."""
        return frozenset((attempt.delivery.job_id, attempt.delivery.start) for attempt in self.held)

    def running_attempts(self) -> list[Attempt]:
        """The attempts whose body has not ended."""
        return [attempt for attempt in list(self.held) if not attempt.over]


def _nowhere(attempt: Attempt) -> None:
    raise AssertionError(f"lane {attempt.lane.queue} is not connected to a batcher")


def _ignore(delay: float) -> None:
    pass


def _keep(attempt: Attempt) -> None:
    pass
