"""`redisjobs limits`: who holds, until when, who waits; and what is set at run time counts at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from tests.support.cli import CommandLine
from tests.support.limiting import LimiterByHand, ask, job_id, limit, rate


@pytest.fixture
def redisjobs(redis_url: str) -> CommandLine:
    return CommandLine({"REDISJOBS_REDIS_URL": redis_url, "REDISJOBS_DATABASE_URL": "", "DATABASE_URL": ""})


@pytest.fixture
async def h(redis_url: str) -> AsyncIterator[LimiterByHand]:
    async with LimiterByHand(redis_url) as made:
        yield made


def uuid(n: int) -> str:
    return str(UUID(bytes=job_id(n)))


def shown(redisjobs: CommandLine, name: str) -> dict[str, Any]:
    """The one key that a limit has."""
    keys: list[dict[str, Any]] = redisjobs.json("limits", "show", name)["keys"]
    assert len(keys) == 1
    return keys[0]


def test_where_there_is_nothing_it_says_so(redisjobs: CommandLine):
    assert redisjobs("limits", "list").stdout == "no limit is in use, waited for, or set at run time\n"
    assert redisjobs.json("limits", "list") == {"limits": []}
    assert "nobody holds it, and nobody waits for it" in redisjobs("limits", "show", "api").stdout
    assert redisjobs.json("limits", "show", "api") == {
        "limit": "api", "set": None, "used": 0, "waiting": 0, "keys": []
    }  # fmt: skip


async def test_holders_are_told_with_their_leases_and_who_waits_in_order(redisjobs: CommandLine, h: LimiterByHand):
    two = limit("api:acme", 2)
    await h.admit(ask(1, two, queue="mail"), ask(2, two), ask(3, two), ask(4, two, queue="mail"), ask(5, two))
    await h.admit(ask(6, limit("api:bolt", 2, weight=2)), consumer="w2")

    acme = shown(redisjobs, "api:acme")
    assert (acme["most"], acme["used"], acme["waiting"]) == (2, 2, 3)
    assert [each["id"] for each in acme["first_in_line"]] == [uuid(n) for n in (3, 4, 5)]
    assert [each["queue"] for each in acme["first_in_line"]] == ["q", "mail", "q"]
    holders = {each["id"]: each for each in acme["holders"]}
    assert set(holders) == {uuid(1), uuid(2)}
    first = holders[uuid(1)]
    assert (first["worker"], first["queue"], first["state"], first["weight"]) == ("w1", "mail", "held", 1)
    assert 50 < first["left_s"] <= 60
    whole = redisjobs.json("limits", "show", "api")
    assert (whole["used"], whole["waiting"], [each["key"] for each in whole["keys"]]) == (
        4,
        3,
        ["api:acme", "api:bolt"],
    )
    text = redisjobs("limits", "show", "api").stdout
    assert "api:acme: 2 of 2 in use, 3 jobs wait" in text
    assert "unless renewed" in text
    assert text.index(uuid(3)) < text.index(uuid(4)) < text.index(uuid(5))
    listed = redisjobs.json("limits", "list")["limits"]
    assert listed == [{"limit": "api", "set": None, "used": 4, "waiting": 3, "keys": 2}]
    assert "2 at once" in redisjobs("limits", "list").stdout


async def test_what_is_kept_for_a_job_and_what_lapsed_is_told(redisjobs: CommandLine, h: LimiterByHand):
    one, other = limit("api"), limit("db")
    await h.admit(ask(1, one), ask(2, one), ask(3, other))
    assert await h.release(1) == [2]
    h.lapse(3)
    await h.sweep()

    (kept,) = shown(redisjobs, "api")["holders"]
    assert (kept["id"], kept["state"]) == (uuid(2), "reserved")
    assert 0 < kept["left_s"] <= 10
    assert "kept for it" in redisjobs("limits", "show", "api").stdout
    assert [each["state"] for each in shown(redisjobs, "db")["holders"]] == ["lapsed"]
    assert "its lease LAPSED" in redisjobs("limits", "show", "db").stdout


async def test_a_rate_is_told_in_words_and_who_waits_for_it(redisjobs: CommandLine, h: LimiterByHand):
    slow = rate("mail", 1, 60_000)
    await h.admit(ask(1, slow), ask(2, slow), ask(3, slow))

    told = shown(redisjobs, "mail")

    assert (told["rate"], told["waiting"], told["most"]) == ("1 in 60 s", 2, None)
    assert "mail: 1 in 60 s; 0 starts reserved, 2 jobs wait" in redisjobs("limits", "show", "mail").stdout


async def test_a_key_that_a_body_closed_says_for_how_long(redisjobs: CommandLine, h: LimiterByHand):
    await h.admit(ask(1, rate("mail", 1, 60_000)))
    await h.limiter.ease("mail", 90_000)

    assert 80 < shown(redisjobs, "mail")["closed_s"] <= 90
    assert "nothing of it starts for " in redisjobs("limits", "show", "mail").stdout


async def test_a_lower_limit_counts_for_new_ones_and_is_taken_back(redisjobs: CommandLine, h: LimiterByHand):
    await h.admit(ask(1, limit("api", 3)))

    assert redisjobs("limits", "set", "api", "--max", "1").stdout == "limit api: 1 at once\n"
    assert await h.words(ask(2, limit("api", 3))) == ["wait"]
    listed = redisjobs.json("limits", "list")["limits"]
    assert listed[0]["set"] == {"most": 1, "count": None, "period_s": None, "burst": None, "paused": False}
    assert shown(redisjobs, "api")["most"] == 1

    assert "what the code says counts again" in redisjobs("limits", "unset", "api").stdout
    assert await h.sweep() == [2]
    assert shown(redisjobs, "api")["most"] == 3
    assert "nothing was set for limit 'api'" in redisjobs("limits", "unset", "api", code=1).stderr


async def test_a_paused_limit_begins_nothing_and_keeps_its_line(redisjobs: CommandLine, h: LimiterByHand):
    assert await h.words(ask(1, limit("api", 5))) == ["ok"]

    assert redisjobs("limits", "set", "api", "--pause").stdout == "limit api: PAUSED\n"

    assert await h.words(ask(2, limit("api", 5)), ask(3, limit("api", 5))) == ["wait", "wait"]
    assert "PAUSED" in redisjobs("limits", "list").stdout
    assert redisjobs.json("limits", "show", "api")["set"]["paused"] is True
    redisjobs("limits", "unset", "api")
    assert sorted(await h.sweep()) == [2, 3]


async def test_a_rate_is_set_with_its_burst(redisjobs: CommandLine, h: LimiterByHand):
    await h.admit(ask(1, rate("mail", 1, 60_000)), ask(2, rate("mail", 1, 60_000)))

    told = redisjobs("limits", "set", "mail", "--rate", "100/m", "--burst", "10").stdout

    assert told == "limit mail: 100 in 60 s, 10 early\n"
    assert shown(redisjobs, "mail")["rate"] == "100 in 60 s, 10 early"
    other = rate("mail:b", 1, 60_000)
    assert await h.words(ask(3, other), ask(4, other)) == ["ok", "ok"]


async def test_a_name_that_nothing_uses_and_a_rate_for_what_is_none_are_warned_of(
    redisjobs: CommandLine, h: LimiterByHand
):
    assert "look whether the name is right" in redisjobs("limits", "set", "apy", "--max", "2").stderr
    await h.admit(ask(1, limit("api", 5)))
    assert "a rate does not count for it" in redisjobs("limits", "set", "api", "--rate", "5/s").stderr
    assert redisjobs("limits", "set", "api", "--max", "2").stderr == ""


async def test_keys_whose_names_begin_alike_are_told_apart(redisjobs: CommandLine, h: LimiterByHand):
    for n, key in enumerate(("api", "api:a", "api2", "ap", "api:a:b"), 1):
        await h.admit(ask(n, limit(key)), ask(10 + n, limit(key)))

    told = redisjobs.json("limits", "show", "api")

    assert sorted(each["key"] for each in told["keys"]) == ["api", "api:a", "api:a:b"]
    assert [each["waiting"] for each in told["keys"]] == [1, 1, 1]
    assert [each["id"] for each in shown(redisjobs, "api:a")["first_in_line"]] == [uuid(12)]


async def test_a_queue_that_does_not_come_for_its_turn_is_named(redisjobs: CommandLine, h: LimiterByHand):
    one = limit("api")
    await h.admit(ask(1, one), ask(2, one, queue="nobody"), ask(3, one, queue="nobody"), ask(4, one))
    assert await h.release(1) == [2]
    h.lapse(2)
    assert set(await h.sweep()) == {2, 4}

    assert shown(redisjobs, "api")["passed_over"] == ["nobody"]
    assert "queue nobody is passed over" in redisjobs("limits", "show", "api").stdout


async def test_many_keys_are_summed_up_under_their_name(redisjobs: CommandLine, h: LimiterByHand):
    await h.admit(*[ask(n, limit(f"api:{n}", 3)) for n in range(1, 151)])

    assert redisjobs.json("limits", "list")["limits"] == [
        {"limit": "api", "set": None, "used": 150, "waiting": 0, "keys": 150}
    ]
    assert "… and 130 more keys; --json has them" in redisjobs("limits", "show", "api").stdout


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["set", "api"], 2, "by one of --max N, --rate N/TIME and --pause"),
        (["set", "api", "--max", "1", "--pause"], 2, "by one of"),
        (["set", "api", "--max", "-1"], 2, "-1 is not in the range"),
        (["set", "api", "--max", "1", "--burst", "2"], 2, "--burst goes with --rate"),
        (["set", "api", "--rate", "fast"], 2, "'fast' is no rate"),
        (["set", "api", "--rate", "0/s"], 2, "'0/s' is no rate"),
        (["set", "api", "--rate", "5/0s"], 2, "'5/0s' is no rate"),
        (["set", "api:acme", "--max", "1"], 78, "is no name of a limit"),
        (["show", "a b"], 78, "is no name of a limit"),
    ],
)
def test_what_makes_no_sense_is_refused(redisjobs: CommandLine, words: list[str], code: int, told: str):
    assert told in redisjobs("limits", *words, code=code).stderr


def test_a_redis_that_is_down_is_told_by_its_exit_code():
    redisjobs = CommandLine({"REDISJOBS_REDIS_URL": "redis://127.0.0.1:1"})
    for words in (["list"], ["show", "api"], ["set", "api", "--pause"], ["unset", "api"]):
        redisjobs("limits", *words, code=69)
