"""Every story on every server: one cell of `docs/reference/supported.md` a test."""

from __future__ import annotations

import pytest

from tests.everywhere.place import EVERYWHERE, IN_EVERY_RUN, PLACES, Place
from tests.everywhere.stories import CORE, STORIES, Story
from tests.stories.road import Road

CELLS = [
    pytest.param(name, story, id=f"{name}-{story.__name__}", marks=pytest.mark.xdist_group(name))
    for name in PLACES
    for story in STORIES.values()
    if EVERYWHERE or (name in IN_EVERY_RUN and story in CORE)
]


@pytest.mark.parametrize(("place", "story"), CELLS, indirect=["place"])
async def test_everywhere(place: Place, road: Road, story: Story):
    await story(road, place)
