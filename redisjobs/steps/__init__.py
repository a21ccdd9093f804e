"""Step stores: what a durable run has done, where a store keeps it, and the right to write it down."""

from redisjobs.steps.records import Claim, Ending, JobDone, Kind, State, StepRecord, Token
from redisjobs.steps.store import StepStore

__all__ = ["Claim", "Ending", "JobDone", "Kind", "State", "StepRecord", "StepStore", "Token"]
