"""Finding jobs by what is known of them: each look walks a bounded stretch of an index, however many there are."""

from redisjobs.search.filters import ENDED, IN_REDIS, LIVE, STATES, JobFilter
from redisjobs.search.placed import Placed
from redisjobs.search.walks import Death, Search

__all__ = ["ENDED", "IN_REDIS", "LIVE", "STATES", "Death", "JobFilter", "Placed", "Search"]
