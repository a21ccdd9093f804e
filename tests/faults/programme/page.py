"""The figures in `docs/reliability.md`, from the kept results: `python -m tests.faults.programme.page` writes them.

A result is what `python -m tests.faults.programme --json FILE` wrote, kept as `results/YYYY-MM-DD-WORDS.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.programme.faults import FAULTS
from tests.support.processes import CHECKOUT

RESULTS = Path(__file__).with_name("results")
PAGE = CHECKOUT / "docs" / "reliability.md"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Programme:
    """One programme that was run: when, of which commit, and what came of each fault.

    Args:
        name: of its file.
        faults, failed: as `report.as_json` tells of them: a row for each fault, and each trial that failed.
    """

    name: str
    commit: str
    machine: str
    seconds: int
    faults: list[dict[str, Any]]
    failed: list[dict[str, Any]]

    @property
    def date(self) -> str:
        """The day of it."""
        return self.name[:10]

    @property
    def trials(self) -> int:
        """Of all faults."""
        return sum(each["trials"] for each in self.faults)

    @property
    def broken(self) -> int:
        """Trials in which a promise did not hold."""
        return sum(len(each["broken"]) for each in self.faults)

    @property
    def errors(self) -> int:
        """Trials that could not be run, which say nothing of the product."""
        return sum(len(each["errors"]) for each in self.faults)


def programmes(folder: Path = RESULTS) -> list[Programme]:
    """All that are kept, the oldest first.

    Raises:
        ValueError: a file is not named by its day.
    """
    found: list[Programme] = []
    for path in sorted(folder.glob("*.json")):
        if not _DATE.match(path.stem):
            raise ValueError(f"{path.name} does not begin with the day of its programme, as in 2026-11-30-night.json")
        told: dict[str, Any] = json.loads(path.read_text())
        found.append(
            Programme(path.stem, told["commit"], told["machine"], told["seconds"], told["faults"], told["failed"])
        )
    return found


def summary(kept: Sequence[Programme]) -> str:
    """A line for each programme, and one for all."""
    rows = [
        (
            each.date, f"`{each.commit}`", each.machine, f"{each.seconds / 3600:.1f} h", f"{each.trials:,}",
            str(each.broken), str(each.errors),
        )
        for each in kept
    ]  # fmt: skip
    trials, broken, errors = (sum(getattr(each, name) for each in kept) for name in ("trials", "broken", "errors"))
    rows.append(("**all**", "", "", "", f"**{trials:,}**", f"**{broken}**", f"**{errors}**"))
    return _table(("day", "commit", "machine", "took", "trials", "broken", "could not be run"), rows)


def by_fault(kept: Sequence[Programme]) -> str:
    """What came of each fault that there is, tried or not."""
    return _table(
        ("fault", "what happens", "broken", "jobs", "bodies started once more, all explained", "last tried"),
        (_of_fault(name, FAULTS[name].told, kept) for name in sorted(FAULTS)),
    )


def what_broke(kept: Sequence[Programme]) -> str:
    """Each trial in which a promise did not hold, and which one; so that nobody has to take a sum on trust."""
    rows = [
        (f"{each.date}, `{each.commit}`", f"`{trial['fault']}`", str(trial["seed"]), "; ".join(_names(trial["broken"])))
        for each in kept
        for trial in each.failed
        if trial["broken"]
    ]
    if not rows:
        return "None, in the trials above."
    return _table(("programme", "fault", "seed", "what did not hold"), rows)


def _names(broken: Iterable[tuple[str, str]]) -> list[str]:
    return sorted({name for name, _ in broken})


def _of_fault(name: str, told: str, kept: Sequence[Programme]) -> tuple[str, ...]:
    found = [(each, row) for each in kept for row in each.faults if row["fault"] == name]
    if not found:
        return f"`{name}`", told, "not tried yet", "", "", ""
    trials, broken, errors = (
        sum(row["trials"] for _, row in found),
        sum(len(row["broken"]) for _, row in found),
        sum(len(row["errors"]) for _, row in found),
    )
    words = f"{broken} in {trials:,} trials" + (f" ({errors} could not be run)" if errors else "")
    jobs, extra = sum(row["jobs"] for _, row in found), sum(sum(row["extra"].values()) for _, row in found)
    last = found[-1][0]
    return f"`{name}`", told, words, f"{jobs:,}", f"{extra:,}", f"{last.date}, `{last.commit}`"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows))


def filled(page: str, kept: Sequence[Programme]) -> str:
    """The page with its figures made anew.

    Raises:
        ValueError: it has no place for them.
    """
    figures = {"programmes": summary(kept), "broken": what_broke(kept), "faults": by_fault(kept)}
    for name, table in figures.items():
        page, count = re.subn(
            rf"(<!-- figures {name} -->\n).*?(<!-- end -->)",
            lambda found, table=table: f"{found[1]}\n{table}\n\n{found[2]}",  # type: ignore[misc]
            page,
            flags=re.DOTALL,
        )
        if count != 1:
            raise ValueError(f"the page has {count} places for the figures named {name}; it needs one")
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), programmes()))
