"""What a run hears of that the stores do by themselves; a ledger listens, a comparison with Redis does not."""

from __future__ import annotations

from tests.model.values import Delivery, Id


class Witness:
    """Hears nothing."""

    def placed(self, job: Id) -> None:
        """Publish has put a job where it waits or is due, for it was nowhere."""

    def delivered(self, d: Delivery) -> None:
        """A worker gets a job, or is told once more that it has it."""

    def lapsed(self, job: Id, consumer: str, entry: int, start: int) -> None:
        """A lease has ended, and another worker has the delivery."""

    def over(self, job: Id, word: str) -> None:
        """A script has ended a job without its holder: a tombstone and its outcome stand."""
