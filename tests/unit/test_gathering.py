"""Which calls make a batch, and how a failed one is split: decisions without a clock (rule L3)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from redisjobs.gathering import Gatherer
from redisjobs.halving import MOST_FAILED, halves


def gatherer(most: int = 1000) -> Gatherer[str, int]:
    return Gatherer(most)


def test_a_batch_goes_with_its_last_item_in_the_order_in_which_they_came() -> None:
    made = gatherer()
    assert [made.add("k", n, size=3, within=9, now=0) for n in (7, 5)] == [[], []]
    assert made.add("k", 6, size=3, within=9, now=1) == [[7, 5, 6]]
    assert (len(made), made.next_at) == (0, None)


def test_its_time_counts_from_its_first_item() -> None:
    made = gatherer()
    made.add("k", 1, size=3, within=2, now=10)
    made.add("k", 2, size=3, within=2, now=11.9)
    assert (made.due(11.9), made.next_at) == ([], 12)
    assert made.due(12) == [[1, 2]]
    made.add("k", 3, size=3, within=2, now=13)
    assert made.next_at == 15


def test_different_keys_come_into_different_batches() -> None:
    made = gatherer()
    for n, key in enumerate("abab"):
        ready = made.add(key, n, size=2, within=9, now=0)
        assert ready == {2: [[0, 2]], 3: [[1, 3]]}.get(n, [])


def test_who_is_taken_out_leaves_no_empty_batch_behind() -> None:
    made = gatherer()
    made.add("k", 1, size=2, within=2, now=0)
    assert (made.remove(1), made.remove(1), made.next_at, len(made)) == (True, False, None, 0)
    made.add("k", 2, size=2, within=2, now=5)
    assert (made.due(6), made.due(7)) == ([], [[2]])


def test_too_many_keys_make_the_batch_go_that_would_be_the_next() -> None:
    made = gatherer(most=4)
    assert [made.add(f"k{n}", n, size=2, within=9, now=n) for n in range(5)] == [[], [], [], [], [[0]]]
    assert made.add("k1", 9, size=2, within=9, now=5) == [[1, 9]]


def test_a_size_above_the_bound_is_reached_all_the_same() -> None:
    made = gatherer(most=4)
    ready = [made.add("k", n, size=10, within=9, now=0) for n in range(10)]
    assert ready[-1] == [list(range(10))]


def test_what_gathers_under_some_keys_can_be_taken_as_it_is() -> None:
    made = gatherer()
    for n, key in enumerate("abcb"):
        made.add(key, n, size=9, within=9, now=0)
    assert made.take(lambda key: key != "a") == [[1, 3], [2]]
    assert made.due(9) == [[0]]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["add", "add", "add", "remove", "due"]))))
def test_every_item_goes_once_and_no_batch_is_too_large_too_late_or_mixed(steps: list[tuple[str, str]]) -> None:
    made: Gatherer[str, tuple[str, int]] = Gatherer(6)
    came: dict[tuple[str, int], int] = {}
    gone: list[list[tuple[str, int]]] = []
    removed: set[tuple[str, int]] = set()
    for now, (key, what) in enumerate(steps):
        if what == "add":
            came[key, now] = now
            gone += made.add(key, (key, now), size=3, within=4, now=now)
        elif what == "remove":
            mine = [each for each in came if each[0] == key]
            removed |= {each for each in mine[-1:] if made.remove(each)}
        gone += made.due(now)
        assert len(made) <= 6
        left = set(came) - removed - {each for batch in gone for each in batch}
        assert all(now - came[each] < 4 for each in left)
    gone += made.take(lambda key: True)
    items = [each for batch in gone for each in batch]
    assert sorted(items) == sorted(set(came) - removed)
    assert all(0 < len(batch) <= 3 and len({key for key, _ in batch}) == 1 for batch in gone)
    assert all(batch == sorted(batch) for batch in gone)


def split(size: int, poison: set[int]) -> tuple[int, set[int]]:
    """How many runs it takes, and who failed."""
    groups: list[list[int]] = [list(range(size))]
    runs, blamed = 0, set[int]()
    while groups:
        runs += len(groups)
        failed = [group for group in groups if poison & set(group)]
        blamed |= {group[0] for group in failed if len(group) == 1}
        groups = [list(half) for half in halves(failed)]
        if not groups:
            blamed |= {each for group in failed for each in group}
    return runs, blamed


@given(st.integers(1, 1000), st.data())
def test_halving_finds_up_to_four_culprits_and_nobody_else(size: int, data: st.DataObject) -> None:
    poison = set(data.draw(st.lists(st.integers(0, size - 1), max_size=MOST_FAILED)))
    runs, blamed = split(size, poison)
    assert blamed == poison
    assert runs <= 1 + 2 * len(poison) * (size - 1).bit_length()


@given(st.integers(1, 1000))
def test_where_everything_fails_fifteen_runs_show_it(size: int) -> None:
    runs, blamed = split(size, set(range(size)))
    assert runs <= 15
    assert blamed == set(range(size))
