"""The rules of the protocol, each of which can be taken away, and the findings that asked for them."""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """finding: the number of the way in which a first draft broke; 0: of what was built since."""

    finding: int
    text: str


RULES = {
    "fold": Rule(1, "a settle batch is folded to one outcome a job before its statement"),
    "steps_outlive_death": Rule(2, "a dead letter keeps its records until it is purged"),
    "lives": Rule(3, "a row counts its redrives; publish, outcome, settle, mark, audit, cancel and claim compare them"),
    "redrive_counts_on": Rule(
        3, "a redriven row counts its publications on, and its fence stands above every former token"
    ),
    "bury_compares": Rule(3, "what is settled buries only the tombstone that names this very outcome"),
    "publish_place": Rule(4, "publish takes an id for a repeat only if it is placed, else clears what remains of it"),
    "audit_place": Rule(4, "audit asks whether a job is placed, not whether its id is known"),
    "entry_checked": Rule(4, "finish and renew check holder, entry and start, not the start alone"),
    "wake_level": Rule(5, "a run that was told while it ran is looked at when its suspension settles"),
    "cancel_by_relay": Rule(
        6, "cancel flags the row; the lease holder asks Redis, and ends only what that does not know"
    ),
    "fence_first": Rule(7, "a new lease holder writes its token into `life` before anything else"),
    "settled_fenced": Rule(7, "`settled` is refused below the fence"),
    "one_life_key": Rule(7, "epoch and fence are fields of one key, and are lost together"),
    "watermark_cas": Rule(8, "a dispatch moves the watermark only from the value that it was computed from"),
    "fresh_token": Rule(9, "after a call with an unknown end a relay takes a new token before it publishes again"),
    "one_turn": Rule(10, "publish, settle, recovery and audit of one queue take turns inside a relay"),
    "dedup_checks": Rule(11, "a row ends as a duplicate only while the job named is live or in its window"),
    "forget_ghosts": Rule(12, "what Redis holds without a row is forgotten by the audit"),
    "audit_keys": Rule(12, "a key whose job has ended, and that has no window, is let go by the audit"),
    "overtake_in_redis": Rule(
        13, "a holder behind the fence takes its higher token from Redis, which checks that it holds"
    ),
    "receipt": Rule(14, "the last accepted finish is remembered, until a grace after `settled`"),
    "trust_before_step": Rule(15, "a body or step starts only while the lease is trusted"),
    "due_in_row": Rule(16, "settle writes the due time of a retry or snooze into the row"),
    "polls_on": Rule(17, "a relay that set the asleep flag polls until every older transaction has ended"),
    "statements_fenced": Rule(18, "mark, recovery, audit and cancel carry token and epoch"),
    "begin_repeats": Rule(18, "a repeated begin answers the same token"),
    "looks_at_lease": Rule(0, "a statement under the lease that changed nothing is asked whether it was refused"),
    "number_marked": Rule(0, "a mark counts for the publication that it was made for, and no later one"),
    "after": Rule(0, "the tombstone of a suspension that has settled makes way for the next publication"),
    "number_settled": Rule(0, "an outcome of a publication whose end has settled changes nothing"),
    "floor_waits": Rule(0, "the floor of a queue's reads rises only above what no open transaction can fill"),
    "lane_kept": Rule(0, "a suspended run keeps its lane"),
    "vacate": Rule(0, "a lane whose head ended while Redis held nothing of it goes on"),
    "reserved_first": Rule(0, "what is free of a limit is reserved before anybody is told"),
    "permit_of_attempt": Rule(0, "a permit is given back only by the attempt that has it"),
    "permits_lapse": Rule(0, "a permit that nobody renews lapses"),
    "told_again": Rule(0, "who did not come for what was reserved for him is told again"),
    "admit_supersedes": Rule(0, "an older start of a job is never admitted beside a newer one"),
    "tell_with_end": Rule(0, "a parent is told in the transaction that ends its child"),
    "call_is_fenced": Rule(0, "a child is staged where its parent's record took it, and nowhere else"),
    "children_cancelled": Rule(0, "what a cancelled run has called is cancelled with it"),
}
"""All are on in the protocol as it is."""

ALL = frozenset(RULES)


def without(*names: str) -> frozenset[str]:
    """All rules but these."""
    unknown = set(names) - ALL
    if unknown:
        raise KeyError(f"no rule {', '.join(sorted(unknown))}: {', '.join(RULES)}")
    return ALL - set(names)
