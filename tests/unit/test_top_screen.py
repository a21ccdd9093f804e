"""What `redisjobs top` draws fits the terminal, and figures are short and whole."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from redisjobs.broker import Presence
from redisjobs.cli.screen import draw, number, span
from redisjobs.errors import BrokerUnavailable
from redisjobs.snapshots import QueueNow, Snapshot, relays


def crowd(count: int) -> Snapshot:
    """So many of everything, with long names and something wrong in each queue."""
    queues = [
        QueueNow(
            f"queue-with-a-long-name-{n}", holder=f"relay-on-some-host-{n % 7}", paused=True, failing=True,
            staged=10_000, staged_s=7e6, dead=123, ready=1_234_567, ready_s=99.9, running=50, due=1, unsettled_s=1.0,
            in_per_s=99_999.9, out_per_s=float(n), start_s=0.034, run_s=12.3, slots=500, workers=3, parked=3,
        )
        for n in range(count)
    ]  # fmt: skip
    workers = [
        Presence(f"worker-on-a-host-with-a-long-name-{n}-1a2b3c4d", queues=["a", "b.*"] * 9, slots={"a": 50},
                 running={"a": n}, oldest_s=86_400.0 * 9, processed=10**7, up_s=86_400.0 * 99, seen_s=2.0)
        for n in range(count)
    ]  # fmt: skip
    return Snapshot(datetime.now(UTC), queues, relays(queues), workers, {"redis": BrokerUnavailable("x\n" * 99)})


def lines(snapshot: Snapshot, width: int, height: int) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width).print(draw(snapshot, width, height, "q quits"))
    return text.getvalue().splitlines()


@pytest.mark.parametrize("count", [0, 1, 5, 300])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (200, 60)])
def test_it_fits(count: int, width: int, height: int):
    drawn = lines(crowd(count), width, height)

    assert len(drawn) <= height
    assert max(map(len, drawn)) <= width


def test_on_80_columns_names_are_cut_and_figures_are_not():
    text = "\n".join(lines(crowd(3), 80, 40))

    assert "…" in text
    assert all(whole in text for whole in ("50/500", "1M", "99d", "2.0s ago", "100k", "3 parked", "Redis is DOWN"))


def test_the_busiest_queues_stay_where_not_all_fit():
    text = "\n".join(lines(crowd(300), 120, 30))

    assert "queue-with-a-long-name-299" in text
    assert "queue-with-a-long-name-17 " not in text


def test_what_a_store_does_not_tell_is_a_dash_and_not_a_zero():
    text = "\n".join(lines(Snapshot(datetime.now(UTC), [QueueNow("q", holder="", staged=3)]), 80, 24))

    row = next(line for line in text.splitlines() if line.startswith("q "))
    assert row.split()[1:] == ["3", *["-"] * 7]
    assert "not known" in text


def test_figures_are_short():
    told = [number(each) for each in (0, 7, 0.25, 99.94, 9_999, 10_000, 123_456, 1_234_567, None)]
    assert told == ["0", "7", "0.2", "99.9", "9999", "10k", "123k", "1M", None]
    assert number(10_000, most=10_000) == "10k+"
    assert [span(each) for each in (0.0, 0.02, 0.5, 59.0, 119, 7_200, 86_400 * 3, None)] == [
        "", "20ms", "0.5s", "59s", "119s", "2h", "3d", None,
    ]  # fmt: skip
