"""Why a job is where it is, and what happens next: facts from both stores, and a pure reading of them."""

from redisjobs.explain.explanation import PLACES, Explanation, explain
from redisjobs.explain.facts import Doubt, Facts, Line, Row
from redisjobs.explain.gather import gather
from redisjobs.explain.reason import Reason

__all__ = ["PLACES", "Doubt", "Explanation", "Facts", "Line", "Reason", "Row", "explain", "gather"]
