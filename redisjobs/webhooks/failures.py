"""How an attempt to deliver ends where it is not accepted: signals, which the job's outcome is read from."""

from __future__ import annotations

from redisjobs.errors import Dead, Retry


class DeliveryFailed(Retry):
    """Not accepted now; a later attempt may be.

    Args:
        reason: in words without a secret.
        after: seconds that the receiver asked for; None: as the retry rule says.
        answer: the beginning of what it answered. It is kept where an error keeps its traceback, which logs do not
            show.
    """

    def __init__(self, reason: str, after: float | None = None, answer: str = "") -> None:
        super().__init__(after, reason)
        self.far_traceback = _told(reason, answer)


class DeliveryRefused(Dead):
    """No later attempt will be accepted.

    Args:
        reason, answer: as those of `DeliveryFailed`.
    """

    def __init__(self, reason: str, answer: str = "") -> None:
        super().__init__(reason)
        self.far_traceback = _told(reason, answer)


def _told(reason: str, answer: str) -> str:
    return f"{reason}\n\nThe answer began:\n{answer}" if answer else reason
