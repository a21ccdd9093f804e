"""What a check answers: how bad it is, what was found, why that matters, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["ok", "warn", "fail", "unknown"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of one check, on one thing.

    Args:
        level: unknown: this login may not look, or what is needed to look is not there.
        value: what was found. why: why that matters. remedy: the command that puts it right.
    """

    level: Level
    value: str
    why: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict with the name of its check, which is stable, such as `redis.eviction`; `subject`: of which queue."""

    check: str
    level: Level
    value: str
    why: str
    remedy: str
    subject: str = ""


def ok(value: str) -> Verdict:
    """Nothing to do."""
    return Verdict("ok", value)


def warn(value: str, why: str, remedy: str) -> Verdict:
    """It works, and will not always."""
    return Verdict("warn", value, why, remedy)


def fail(value: str, why: str, remedy: str) -> Verdict:
    """It does not work, or jobs may be lost."""
    return Verdict("fail", value, why, remedy)


def unknown(value: str, remedy: str = "") -> Verdict:
    """It could not be looked at."""
    return Verdict("unknown", value, "", remedy)


def named(check: str, verdict: Verdict, subject: str = "") -> Finding:
    """The verdict under the name of its check."""
    return Finding(check, verdict.level, verdict.value, verdict.why, verdict.remedy, subject)
