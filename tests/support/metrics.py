"""What a monitor tells at a scrape, by name and labels."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from redisjobs.monitoring.exposition import Exposition
from redisjobs.monitoring.family import Family
from tests.support.http import fetch


class Scrape:
    """What one process tells, or several together, parsed as Prometheus parses it."""

    def __init__(self, *texts: str) -> None:
        found = [family for text in texts for family in text_string_to_metric_families(text)]
        self.families = {family.name: family for family in found}
        self.samples = [sample for family in found for sample in family.samples]

    def values(self, name: str, **labels: str) -> list[float]:
        """The values of all samples of this name that have these labels."""
        return [each.value for each in self.samples if each.name == name and labels.items() <= each.labels.items()]

    def value(self, name: str, **labels: str) -> float:
        """The one value."""
        (found,) = self.values(name, **labels)
        return found

    def counts(self, name: str, by: str, **labels: str) -> dict[str, float]:
        """The sums of a counter by one label, without what never happened."""
        sums: dict[str, float] = {}
        for each in self.samples:
            if each.name == name and labels.items() <= each.labels.items() and each.value:
                sums[each.labels[by]] = sums.get(each.labels[by], 0) + each.value
        return sums


def told(families: Iterable[Family]) -> Scrape:
    """What these families would tell, without HTTP."""
    return Scrape(Exposition(lambda: families).page("")[0].decode())


async def scrape(port: int | None) -> Scrape:
    """A scrape of this port."""
    assert port is not None
    status, text = await fetch(port, "/metrics")
    assert status == 200, text
    return Scrape(text)
