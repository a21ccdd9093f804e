"""What an attempt has been given of the limits of its job."""

from __future__ import annotations

from redisjobs.broker import Ask, Delivery

STARTS = 1_000_000
"""Of one publication; a suspended job that goes on, or is redriven, is another one, and its starts begin anew."""


def start_of(delivery: Delivery) -> int:
    """The start of a delivery as the limiter knows it: above those of all former publications of its job.

    What is given back late, after the job was published anew, must not be taken for what its next attempt holds.
    """
    return delivery.number * STARTS + delivery.start


class Permit:
    """The right of one attempt to run under its limits. From the question on it may be there, and is to be given back.

    Args:
        until: until when it is sure to be ours, in monotonic seconds, counted from before the request was sent; 0: it
            was not given yet.
    """

    __slots__ = ("ask", "until")

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.until = 0.0

    @property
    def renews(self) -> bool:
        """Whether a heartbeat has to renew it: it was given, and not for a rate alone."""
        return self.until > 0 and self.ask.holds
