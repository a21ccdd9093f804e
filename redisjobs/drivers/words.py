"""What Postgres refuses, in our words: what is certainly about the outbox; all else stays the caller's."""

from __future__ import annotations

from redisjobs.errors import ConfigurationError, EnqueueError, RedisjobsError, StoreRefused

_NO_TABLES = frozenset({"42P01", "3F000", "42703", "42883"})
"""No such table, schema, column, function."""
_NO_RIGHT, _CHECK, _UNIQUE = "42501", "23514", "23505"


def in_our_words(
    code: str | None, message: str | None, table: str | None, rule: str | None, *, command: str = "redisjobs"
) -> RedisjobsError | None:
    """The error to raise instead of the driver's; None: it is none of our business.

    Args:
        code: the SQLSTATE.
        message: Postgres' own, first line.
        table: that the error is about, and `rule` its constraint.
        command: how users of this driver call the command.
    """
    if code in _NO_TABLES:
        return ConfigurationError(f"this database has not our tables ({message}): run `{command} migrate`")
    if code == _NO_RIGHT:
        return StoreRefused(
            f"this role may not do it ({message}): "
            "a producer's rights are given by SELECT redisjobs.grant_producer('role')"
        )
    if table != "outbox":
        return None
    if code == _CHECK:
        return EnqueueError(f"the outbox refuses the row by its rule {rule}")
    if code == _UNIQUE:
        return EnqueueError("this call was enqueued before, and a call is one job: make a new one")
    return None
