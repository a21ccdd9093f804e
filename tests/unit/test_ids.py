"""Job ids rise within a process, and no two are equal: also over threads, a stopped clock and a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from uuid import RFC_4122, UUID

import pytest

from redisjobs.base.ids import Maker, new_id, parse_id
from redisjobs.errors import OptionError


def test_an_id_is_a_uuid_of_version_7_with_the_time_in_front():
    before = time.time_ns() // 1_000_000
    made = new_id()
    after = time.time_ns() // 1_000_000

    assert (made.version, made.variant) == (7, RFC_4122)
    assert before <= made.int >> 80 <= after + 1


def test_ids_rise():
    made = [new_id() for _ in range(20_000)]

    assert made == sorted(set(made))


def test_ids_rise_while_the_clock_stands_or_steps_back(monkeypatch: pytest.MonkeyPatch):
    maker = Maker()
    first = maker.next()
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000)

    made = [first, *[maker.next() for _ in range(1000)]]

    assert made == sorted(set(made))


def test_a_full_counter_borrows_from_the_next_millisecond():
    maker = Maker()
    maker.next()
    maker._counter, maker._millis = (1 << 42) - 2, 1 << 46

    made = [maker.next() for _ in range(5)]

    assert made == sorted(set(made))
    assert made[-1].int >> 80 == (1 << 46) + 1


def test_threads_share_no_id():
    made: list[list[UUID]] = [[] for _ in range(8)]
    threads = [threading.Thread(target=lambda mine=mine: mine.extend(new_id() for _ in range(2000))) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({each for mine in made for each in mine}) == 16_000
    assert all(mine == sorted(mine) for mine in made)


def test_a_forked_child_makes_ids_of_its_own():
    program = """
import os, time
from redisjobs.base.ids import new_id
time.time_ns = lambda: 1_700_000_000_000_000_000
new_id()
reads, writes = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.write(writes, b"".join(new_id().hex.encode() + b"\\n" for _ in range(20)))
        os._exit(0)
for _ in range(4):
    os.wait()
os.write(writes, b"".join(new_id().hex.encode() + b"\\n" for _ in range(20)))
os.close(writes)
print(os.read(reads, 100_000).decode())
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)

    counters = {line[12:24] for line in said.stdout.split()}
    assert len(said.stdout.split()) == len(set(said.stdout.split())) == 100
    assert len(counters) > 4  # not the same counter five times over, told apart by 32 random bits alone


@pytest.mark.parametrize("given", ["", "x", "01a2", b"12", None, 5, "\udc7f"])
def test_what_is_no_id_is_refused(given):
    with pytest.raises(OptionError, match="is not a job id"):
        parse_id(given)


def test_an_id_is_read_in_each_of_its_forms():
    made = new_id()

    assert parse_id(str(made)) == parse_id(made.bytes) == parse_id(made) == parse_id(made.hex) == made
