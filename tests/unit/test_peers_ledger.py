"""What is told from the starts and ends of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.peers import ledger
from benchmarks.peers.ledger import Account, Ledger

KILLED_AT = 10.0
LINES = [
    "start 0 9.0", "end 0 9.5",  # before
    "start 1 9.8", "start 1 12.0", "end 1 12.5",  # interrupted, and done again
    "start 2 9.9", "start 2 14.0", "end 2 14.5", "end 2 15.0",  # the same, and ended twice
    "start 3 9.9",  # interrupted for good
    "start 4 11.0", "end 4 11.5",  # after
]  # fmt: skip


@pytest.fixture
def account() -> Account:
    return Account.of(LINES)


def test_what_had_started_and_not_ended_was_interrupted(account: Account):
    assert account.interrupted(KILLED_AT) == [1, 2, 3]


def test_the_wait_is_the_median_of_those_that_started_again(account: Account):
    assert account.waits(KILLED_AT) == [2.0, 4.0]
    assert account.wait(KILLED_AT) == 3.0


def test_without_an_interruption_there_is_no_wait(account: Account):
    assert account.wait(20.0) is None


def test_missing_is_what_never_ended(account: Account):
    assert account.missing(range(6)) == 2
    assert account.ended(range(6)) == 4


def test_doubled_is_what_ended_twice_and_not_what_only_started_twice(account: Account):
    assert account.doubled(range(6)) == 1


def test_all_is_done_when_the_last_has_ended_for_the_first_time(account: Account):
    assert account.done([0, 1, 2], KILLED_AT) == 4.5
    assert account.done([0, 3], KILLED_AT) is None


def test_work_goes_on_with_the_first_start_of_any_job(account: Account):
    assert account.first_start_after(KILLED_AT) == 1.0
    assert account.first_start_after(20.0) is None


def test_several_writers_make_one_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(ledger.PLACE, str(tmp_path / "ledger"))
    mine, other = Ledger(tmp_path / "ledger"), Ledger.of_environment()
    assert other is not None

    mine.note("start", 7)
    other.note("end", 7)
    account = mine.read()
    mine.close()
    other.close()

    assert account.ended([7]) == 1
    assert account.starts[7][0] <= account.ends[7][0]
