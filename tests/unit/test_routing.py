"""Commands find their nodes: what a cluster answers while it changes, without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from redis import exceptions
from redis.crc import key_slot

from redisjobs.broker.routing import MOST_HOPS, MOST_TRIES, Command, Pause, Router
from redisjobs.broker.slots import Place, slot_of

A, B, C = Place("10.0.0.1", 7000), Place("10.0.0.2", 7000), Place("10.0.0.3", 7000)
SLOT = key_slot(b"{q}")
GET = Command(("HGET", "rj:{q}:jobs", "id"))


def whole(owner: Place, replica: Place = C) -> list[list[Any]]:
    """CLUSTER SLOTS where one node has everything."""
    return [[0, 16383, [owner.host.encode(), owner.port, b"id"], [replica.host.encode(), replica.port, b"id2"]]]


class Nodes:
    """Answers as nodes would: `says[place]` is called with the words of a command."""

    def __init__(self, **says: Callable[[Sequence[Any]], Any]) -> None:
        self.says = says
        self.asked: list[tuple[Place, str]] = []
        self.pauses = 0

    def run(self, talk: Any) -> list[Any]:
        try:
            step = next(talk)
            while True:
                if isinstance(step, Pause):
                    self.pauses += 1
                    step = talk.send([])
                else:
                    step = talk.send([self._answer(send) for send in step])
        except StopIteration as end:
            found: list[Any] = end.value
            return found

    def _answer(self, send: Any) -> Any:
        replies: list[Any] = []
        for command in send.commands:
            self.asked.append((send.place, str(command.words[0])))
            say = self.says[{A: "a", B: "b", C: "c"}[send.place]]
            try:
                replies.append(say(command.words))
            except (exceptions.ConnectionError, OSError) as error:
                return error
            except exceptions.ResponseError as error:
                replies.append(error)
        return replies


def telling(slots: list[list[Any]], then: Any) -> Callable[[Sequence[Any]], Any]:
    def say(words: Sequence[Any]) -> Any:
        if words[0] == "CLUSTER":
            return slots
        if isinstance(then, Exception):
            raise then
        return then

    return say


def gone(words: Sequence[Any]) -> Any:
    raise exceptions.ConnectionError("refused")


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("EVALSHA", "0" * 40, 2, b"rj:{q}:jobs", b"rj:{q}:due", "argument"), b"q"),
        (("XREADGROUP", "GROUP", "workers", "w", "COUNT", 1, "STREAMS", "rj:{mail}:ready:0", ">"), b"mail"),
        (("xread", "count", 1, "streams", "rj:{mail}:x", 0), b"mail"),
        (("XINFO", "GROUPS", b"rj:{mail}:x"), b"mail"),
        (("SMEMBERS", "rj:queues"), b"rj:queues"),
    ],
)
def test_a_command_goes_by_its_keys(words: Sequence[Any], key: bytes):
    assert slot_of(words) == key_slot(key)


@pytest.mark.parametrize("words", [("PING",), ("TIME",), ("INFO", "memory"), ("EVAL", "return 1", 0)])
def test_a_command_without_keys_may_go_anywhere(words: Sequence[Any]):
    assert slot_of(words) is None


def test_the_map_is_asked_for_once_and_every_command_goes_straight_to_its_node():
    router, nodes = Router([A]), Nodes(a=telling(whole(B), None), b=telling([], b"x"))

    assert nodes.run(router.call([GET])) == [b"x"]
    assert nodes.run(router.call([GET, Command(("TIME",))])) == [b"x", b"x"]
    assert nodes.asked == [(A, "CLUSTER"), (B, "HGET"), (B, "HGET"), (B, "TIME")]


def test_a_slot_that_has_moved_is_followed_and_the_map_asked_for_anew():
    moved = exceptions.MovedError(f"{SLOT} {B.host}:{B.port}")
    router, nodes = Router([A]), Nodes(a=telling(whole(A), moved), b=telling(whole(B), b"x"))

    assert nodes.run(router.call([GET])) == [b"x"]
    assert nodes.asked == [(A, "CLUSTER"), (A, "HGET"), (B, "CLUSTER"), (B, "HGET")]
    assert nodes.run(router.call([GET])) == [b"x"]
    assert nodes.asked[4:] == [(B, "HGET")]


def test_nodes_that_send_a_command_to_each_other_do_not_keep_it_for_ever():
    there, back = exceptions.MovedError(f"{SLOT} {B.host}:7000"), exceptions.MovedError(f"{SLOT} {A.host}:7000")
    router, nodes = Router([A]), Nodes(a=telling(whole(A), there), b=telling(whole(B), back))

    (reply,) = nodes.run(router.call([GET]))

    assert isinstance(reply, exceptions.TryAgainError), "it was not carried out, and may be repeated"
    assert sum(word == "HGET" for _, word in nodes.asked) == MOST_HOPS + 1


def test_a_key_that_has_gone_ahead_is_asked_for_there_this_once():
    ask = exceptions.AskError(f"{SLOT} {B.host}:{B.port}")
    router, nodes = Router([A]), Nodes(a=telling(whole(A), ask), b=telling([], b"x"))

    assert nodes.run(router.call([GET])) == [b"x"]
    assert nodes.asked[1:] == [(A, "HGET"), (B, "ASKING"), (B, "HGET")]
    assert router.slots.owner(SLOT) == A


def test_a_redirection_without_a_host_stays_on_the_one_that_was_asked():
    router, nodes = Router([A]), Nodes(a=telling(whole(A), None))
    asked = 0

    def say(words: Sequence[Any]) -> Any:
        nonlocal asked
        if words[0] == "CLUSTER":
            return [[0, 16383, [b"", 7000, b"id"]]]
        asked += 1
        if asked == 1:
            raise exceptions.MovedError(f"{SLOT} :7000")
        return b"x"

    nodes.says["a"] = say
    assert nodes.run(router.call([GET])) == [b"x"]


def test_a_slot_in_pieces_is_waited_for_and_not_for_ever():
    router, nodes = Router([A]), Nodes(a=telling(whole(A), exceptions.TryAgainError("in pieces")))

    (reply,) = nodes.run(router.call([GET]))

    assert isinstance(reply, exceptions.TryAgainError)
    assert nodes.pauses == MOST_TRIES


def test_a_lost_connection_is_told_and_the_next_command_asks_who_has_taken_over():
    router, nodes = Router([A]), Nodes(a=telling(whole(B, A), None), b=gone)
    with pytest.raises(exceptions.ConnectionError):
        nodes.run(router.call([GET]))

    nodes.says["a"] = telling(whole(A), b"x")

    assert nodes.run(router.call([GET])) == [b"x"]
    assert [word for place, word in nodes.asked if place == B] == ["HGET"], "nothing is repeated by itself"


def test_the_map_is_had_from_another_node_where_one_is_gone():
    router, nodes = Router([A, B]), Nodes(a=gone, b=telling(whole(B), b"x"))

    assert nodes.run(router.call([GET])) == [b"x"]


def test_where_no_node_answers_that_is_said():
    router, nodes = Router([A, B]), Nodes(a=gone, b=gone)

    with pytest.raises(exceptions.ConnectionError, match="refused"):
        nodes.run(router.call([GET]))


def test_a_slot_that_nobody_serves_is_told_so():
    router, nodes = Router([A]), Nodes(a=telling([[0, 1, [A.host.encode(), A.port, b"id"]]], b"x"))

    (reply,) = nodes.run(router.call([GET]))

    assert isinstance(reply, exceptions.ClusterDownError)


def test_what_a_lost_node_leaves_open_can_be_told_apart_from_what_others_answered():
    low, high = Command(("HGET", "{b}", "f")), Command(("HGET", "{q}", "f"))
    at = key_slot(b"b")
    slots = [[0, at, [A.host.encode(), A.port, b"i"]], [at + 1, 16383, [B.host.encode(), B.port, b"i"]]]
    assert at < SLOT
    router, nodes = Router([A]), Nodes(a=telling(slots, b"x"), b=gone)

    first, second = nodes.run(router.call([low, high], apart=True))

    assert first == b"x"
    assert isinstance(second, exceptions.ConnectionError)
