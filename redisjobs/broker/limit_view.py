"""Limits as an operator sees them: who holds, until when, who waits; and setting one. A sync connection of its own."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, cast

from redisjobs.base import scripts
from redisjobs.broker.client import in_our_words, run_sync
from redisjobs.broker.hashes import whole_hash
from redisjobs.broker.keys import NO_QUEUE
from redisjobs.broker.limit_values import (
    TICKET,
    LimitKey,
    Permit,
    Rule,
    Standing,
    Waiter,
    add,
    name_of,
    override,
    read_permit,
    read_rule,
    read_wants,
    say,
)
from redisjobs.broker.looking import Looking
from redisjobs.broker.permits import Rate, rule_text
from redisjobs.limits import check_limit_name

_ADJUST = scripts.load("adjust")

TIMEOUT_S = 5.0
MOST_PERMITS = 20_000
"""Permits are looked through up to here."""
MOST_KEYS = 1_000
"""Limit keys are looked at up to here."""
MOST_QUEUES = 100
_AT_ONCE = 1_000


class LimitView(Looking):
    """Looks at the limits of the fleet. Every method raises BrokerUnavailable or StoreRefused.

    Args:
        url: the Redis URL.
        prefix: what every key begins with.
    """

    timeout = TIMEOUT_S

    def rules(self) -> dict[str, Rule]:
        """What was set at run time, by the names of limits."""
        with in_our_words("HSCAN"):
            found = whole_hash(self._redis, self._key("limits"))
        return {name.decode(): read_rule(text) for name, text in sorted(found.items())}

    def keys(self, name: str | None = None, *, heads: int = 0, only: str | None = None) -> list[LimitKey]:
        """The limit keys in use or waited for, the longest lines first; of one name, or one of them, if that is given.

        Args:
            heads: so many of those who wait in each line are told.
        """
        with in_our_words("HSCAN"):
            found: dict[str, LimitKey] = {}
            for key in [only] if only is not None else self._known(name):
                found[key] = LimitKey(key, name_of(key))
            permits = list(self._permits())
            for permit in permits:
                for want in permit.wants:
                    if (name is None or want.name == name) and (only is None or want.key == only):
                        add(found.setdefault(want.key, LimitKey(want.key, want.name)), want, permit)
            self._count(list(found.values()), heads)
        rules = self.rules()
        for each in found.values():
            override(each, rules.get(each.name))
        return sorted(found.values(), key=lambda each: (-each.waiting, -each.used, each.key))[:MOST_KEYS]

    def standing(self, job_id: bytes) -> Standing | None:
        """What the limiter knows of a job; None: nothing."""
        with in_our_words("HGET"):
            ticket = TICKET.fullmatch(self._ask("HGET", self._key("tickets"), job_id) or b"")
            permit = self._permit(job_id)
            if ticket is None and permit is None:
                return None
            where = ticket[4].decode() if ticket else ""
            place = self._place(where, int(ticket[1])) if ticket and where else 0
        wanted = permit.wants if permit else read_wants(ticket[5]) if ticket else ()
        key = where or next((want.key for want in wanted), "")
        limit = next(iter(self.keys(only=key, heads=1)), None) if key else None
        rule = self.rules().get(name_of(key)) if key else None
        return Standing(key, place, permit, limit, rule)

    def adjust(self, name: str, most: int | None = None, rate: Rate | None = None) -> None:
        """Set a limit for the whole fleet; neither: what the code says counts again. As `Limiter.set_limit`."""
        text = "" if most is None and rate is None else rule_text(most, rate)
        keys, at = self._keys.of(NO_QUEUE, _ADJUST), b""
        while True:
            at = run_sync(self._redis, _ADJUST, keys, [check_limit_name(name), text, at])
            if not at:
                return

    # -- what there is
    def _known(self, name: str | None) -> list[str]:
        """Keys with something in use, with a line, or with a rate that is remembered."""
        names = {key.decode(errors="replace") for key, _ in self._scan("used") if key}
        names |= {key.decode(errors="replace") for key, _ in self._scan("rates")}
        names |= set(self._lines(name))
        return sorted(key for key in names if name is None or name_of(key) == name)

    def _lines(self, name: str | None) -> Generator[str]:
        """The keys that have a line, by a skip scan: one look for each."""
        at = b"-" if name is None else f"[{name}".encode()
        for _ in range(MOST_KEYS):
            found = self._ask("ZRANGE", self._key("line"), at, "+", "BYLEX", "LIMIT", 0, 1)
            if not found:
                return
            key = bytes(found[0]).partition(b"\n")[0]
            if name is not None and not key.startswith(name.encode()):
                return
            yield key.decode(errors="replace")
            at = b"(" + key + b"\x0b"

    def _permits(self) -> Generator[Permit]:
        pieces = list(dict(self._scan("held")).items())  # a scan may tell of one twice
        now_ms = self._now_ms()
        for first in range(0, len(pieces), _AT_ONCE):
            piece = pieces[first : first + _AT_ONCE]
            ends = self._ask("ZMSCORE", self._key("expiry"), *[job_id for job_id, _ in piece])
            for (job_id, text), end in zip(piece, ends, strict=True):
                found = read_permit(job_id, text, end, now_ms)
                if found is not None:
                    yield found

    def _permit(self, job_id: bytes) -> Permit | None:
        text = self._ask("HGET", self._key("held"), job_id)
        end = self._ask("ZSCORE", self._key("expiry"), job_id)
        return None if text is None else read_permit(job_id, text, end, self._now_ms())

    def _place(self, key: str, seq: int) -> int:
        """The place in line over all queues, from 1."""
        before = 0
        for each in self._queues(key):
            start = b"\n".join((key.encode(), each))
            until = b"(%b\n%016d\n" % (start, seq)
            before += int(self._ask("ZLEXCOUNT", self._key("line"), b"[" + start + b"\n", until))
        return before + 1

    def _queues(self, key: str) -> Generator[bytes]:
        """The queues that have a part of a line."""
        at, start = b"[" + key.encode() + b"\n", key.encode() + b"\n"
        for _ in range(MOST_QUEUES):
            found = self._ask("ZRANGE", self._key("line"), at, b"(" + key.encode() + b"\x0b", "BYLEX", "LIMIT", 0, 1)
            if not found:
                return
            queue = bytes(found[0])[len(start) :].partition(b"\n")[0]
            yield queue
            at = b"(" + start + queue + b"\x0b"

    def _count(self, found: Sequence[LimitKey], heads: int) -> None:
        """How much each has in use, how long its line is, and who stands first in it."""
        for first in range(0, len(found), _AT_ONCE):
            self._count_some(found[first : first + _AT_ONCE])
        for each in found if heads else ():
            if each.waiting:
                each.heads = self._first_in_line(each.key, heads)
                each.passed_over = self._asleep(each.key)

    def _count_some(self, found: Sequence[LimitKey]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        names = [each.key.encode() for each in found]
        pipeline.execute_command("HMGET", self._key("used"), *names)
        pipeline.execute_command("HMGET", self._key("rates"), *names)
        for name in names:
            pipeline.execute_command("ZLEXCOUNT", self._key("line"), b"[" + name + b"\n", b"(" + name + b"\x0b")
        pipeline.execute_command("TIME")
        used, rates, *counts, time = pipeline.execute()
        now_ms = _ms(time)
        for each, in_use, pace, count in zip(found, used, rates, counts, strict=True):
            each.used, each.waiting = int(in_use or 0), int(count)
            closed = float(pace.split(b" ")[2]) if pace else 0.0
            each.closed_s = max(0.0, (closed - now_ms) / 1000)
        self._ask_first(found)

    def _ask_first(self, found: Sequence[LimitKey]) -> None:
        """What a limit is, where only those who wait can say."""
        silent = [each for each in found if each.waiting and each.most is None and each.rate is None]
        for each in silent:
            for waiter in self._first_in_line(each.key, 1):
                text = self._ask("HGET", self._key("tickets"), waiter.job_id) or b""
                ticket = TICKET.fullmatch(text)
                for want in read_wants(ticket[5]) if ticket else ():
                    if want.key == each.key:
                        say(each, want)

    def _first_in_line(self, key: str, most: int) -> list[Waiter]:
        """Those who stand first, over all queues."""
        found: list[tuple[int, Waiter]] = []
        for queue in self._queues(key):
            start = b"\n".join((key.encode(), queue))
            members = self._ask(
                "ZRANGE", self._key("line"), b"[" + start + b"\n", b"(" + start + b"\x0b", "BYLEX", "LIMIT", 0, most
            )
            for member in members:
                rest = bytes(member)[len(start) + 1 :]
                found.append((int(rest[:16]), Waiter(rest[-16:], queue.decode())))
        return [waiter for _, waiter in sorted(found, key=lambda each: each[0])[:most]]

    def _asleep(self, key: str) -> list[str]:
        """Queues of a line that others go before."""
        name = b"\n" + key.encode()
        return [
            each.decode()
            for each in self._queues(key)
            if self._ask("ZSCORE", self._key("idle"), each + name) is not None
        ]

    # -- asking
    def _scan(self, name: str) -> Generator[tuple[bytes, bytes]]:
        cursor, seen = 0, 0
        while True:
            cursor, found = self._ask("HSCAN", self._key(name), cursor, "COUNT", _AT_ONCE)
            pairs = _pairs(found)
            yield from pairs.items()
            seen += len(pairs)
            if not int(cursor) or seen >= MOST_PERMITS:
                return

    def _now_ms(self) -> float:
        return _ms(self._ask("TIME"))

    def _key(self, name: str) -> bytes:
        return self._keys.key(NO_QUEUE, name)

    def _ask(self, *words: bytes | str | int) -> Any:
        return self._redis.execute_command(*words)


def _ms(time: Sequence[Any]) -> float:
    return int(time[0]) * 1000 + int(time[1]) / 1000


def _pairs(reply: Any) -> dict[bytes, bytes]:
    if isinstance(reply, dict):
        return cast("dict[bytes, bytes]", reply)
    return dict(zip(reply[::2], reply[1::2], strict=True))
