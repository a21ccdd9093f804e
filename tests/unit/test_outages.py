"""Queues of a lost node rest, are tried again in time, and are news once."""

from __future__ import annotations

import math

from redisjobs.outages import AGAIN_S, Outages


def test_a_queue_rests_after_its_server_did_not_answer_and_is_then_tried_again():
    outages = Outages()

    assert outages.met("mail", 10)
    assert outages.rests("mail", 10)
    assert not outages.rests("other", 10)
    assert outages.due(10) == set()
    assert outages.next_in(10) == AGAIN_S
    assert not outages.rests("mail", 10 + AGAIN_S)
    assert outages.due(10 + AGAIN_S) == {"mail"}


def test_it_is_news_once_until_it_is_over():
    outages = Outages()
    outages.met("mail", 10)

    assert not outages.met("mail", 11)
    outages.over("mail")
    assert outages.next_in(11) == math.inf
    assert outages.met("mail", 12)
