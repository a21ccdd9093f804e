"""Which promise breaks where a rule is taken away: for each rule the runs to look among, and one that showed it.

Seeds belong to the model as it is: after a change of it, `python -m tests.model ablate` finds new ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.model.explore import Played, Setting, play
from tests.model.rules import without
from tests.model.world import FAULTS


@dataclass(frozen=True, slots=True)
class Case:
    """A rule that is taken away.

    Args:
        breaks: the promises of which one must break; empty: any.
        also: rules taken away with it, for they are second nets under the same fall; they break other promises.
        seed: of a run that showed it.
    """

    rule: str
    seed: int = 0
    breaks: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    faults: tuple[str, ...] = FAULTS
    mood: str | None = None

    @property
    def setting(self) -> Setting:
        return Setting(without(self.rule, *self.also), self.faults, self.mood)

    @property
    def whole(self) -> Setting:
        """The same runs with every rule."""
        return Setting(faults=self.faults, mood=self.mood)

    def shows(self, played: Played) -> bool:
        return bool(played.promise) and (not self.breaks or played.promise in self.breaks)


RUNS_AGAIN = ("extra-start", "ran-after-cancel", "key", "lane", "dedup-against-ended", "effect-twice")

CASES = (
    Case("fold", 539, faults=("away", "pause", "lost")),
    Case("steps_outlive_death", mood="deaths"),
    Case("lives", 15, mood="deaths"),
    Case("bury_compares", 6, mood="deaths"),
    Case("publish_place", 17, faults=("keyloss", "kill")),
    Case("audit_place", 36, faults=("keyloss", "kill")),
    Case("wake_level", 18, mood="steps"),
    Case("cancel_by_relay", 17),
    Case("watermark_cas"),
    Case("fresh_token", 231, breaks=RUNS_AGAIN, also=("receipt",), faults=("limbo", "lost")),
    Case("dedup_checks", 17, mood="keys"),
    Case("forget_ghosts", 107),
    Case("audit_keys", 32, mood="keys", faults=("rollback", "keyloss")),
    Case("overtake_in_redis", 35, mood="steps"),
    Case("receipt", 139, faults=("lost", "pause")),
    Case("trust_before_step", 590, faults=("pause", "kill", "lost"), mood="steps"),
    Case("due_in_row", 100, faults=("flush",)),
    Case("looks_at_lease", 100, mood="keys", faults=("pause", "lost")),
    Case("floor_waits", 139),
    Case("lane_kept", 7, mood="lanes"),
    Case("vacate", 32, faults=("rollback", "lost", "kill"), mood="lanes"),
    Case("permit_of_attempt", 562, faults=("pause", "lost"), mood="limits"),
    Case("permits_lapse", 195, faults=("kill",), mood="limits"),
    Case("told_again", 2, mood="limits"),
    Case("tell_with_end", 166, mood="family"),
    Case("call_is_fenced", 16, mood="family"),
    Case("children_cancelled", mood="family"),
)

COVERED = {
    "begin_repeats": "the first of two tokens is worth nothing then: a lease is lost, and nothing runs twice",
    "admit_supersedes": "an older start is refused by its lease, at the last look before its body",
    "reserved_first": "who is told and finds nothing left waits again: unfair, and never wrong",
    "redrive_counts_on": "lives are compared wherever a token is: that of a former life is refused by its life",
    "entry_checked": "a start is given once in a life of Redis; a leftover of an older publication needs two losses",
    "one_life_key": "needs the fence lost alone, and a relay paused over that: once in some 80 000 runs",
    "after": "the audit finds, a grace later, that the tombstone is gone, and the run is published then",
}
"""Rules whose absence no run of the usual number shows, and why."""


def search(case: Case, seeds: Iterable[int]) -> tuple[Played | None, int]:
    """The first run that shows it, and how many were played."""
    count = 0
    for seed in seeds:
        count += 1
        played = play(seed, case.setting)
        if case.shows(played):
            return played, count
    return None, count
