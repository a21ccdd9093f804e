"""The client's errors in our own words: may the caller repeat, or is there something to mend?"""

from __future__ import annotations

import pytest
from redis import exceptions
from redis._parsers.base import BaseParser

from redisjobs.broker.client import in_our_words
from redisjobs.errors import BrokerUnavailable, ConfigurationError, StoreRefused

LATER = [
    "OOM command not allowed when used memory > 'maxmemory'.",
    "ERR Error running script (call to f_0): @user_script:9: @user_script: 9: -OOM command not allowed",
    "READONLY You can't write against a read only replica.",
    "LOADING Redis is loading the dataset in memory",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "CLUSTERDOWN The cluster is down",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "NOREPLICAS Not enough good replicas to write.",
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
]
NEVER = [
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "ERR unknown command 'XAUTOCLAIM'",
    "NOPERM this user has no permissions to run the 'evalsha' command",
    "NOAUTH Authentication required.",
    "WRONGPASS invalid username-password pair or user is disabled.",
]


@pytest.mark.parametrize("reply", LATER)
def test_what_passes_by_itself_may_be_repeated(reply: str):
    with pytest.raises(BrokerUnavailable), in_our_words("finish"):
        raise BaseParser.parse_error(reply)


OF_UVLOOP = "unable to perform operation on <TCPTransport closed=True reading=False 0x1>; the handler is closed"


@pytest.mark.parametrize(
    "error", [exceptions.ConnectionError("closed"), exceptions.TimeoutError(), OSError(), RuntimeError(OF_UVLOOP)]
)
def test_a_connection_that_failed_may_be_made_again(error: Exception):
    with pytest.raises(BrokerUnavailable, match=r"Redis does not answer finish: ."), in_our_words("finish"):
        raise error


def test_an_error_of_our_own_stays_one():
    with pytest.raises(RuntimeError, match="another loop"), in_our_words("finish"):
        raise RuntimeError("attached to another loop")


@pytest.mark.parametrize("reply", NEVER)
def test_what_no_repeat_heals_is_refused_and_names_the_command(reply: str):
    with pytest.raises((StoreRefused, ConfigurationError), match=r"finish|login"), in_our_words("finish"):
        raise BaseParser.parse_error(reply)


@pytest.mark.parametrize("reply", ["MOVED 5798 10.0.0.7:6379", "ASK 5798 10.0.0.7:6379"])
def test_a_node_that_has_only_some_of_the_keys_is_called_what_it_is(reply: str):
    told = r"finish: this is one node of a cluster.*10\.0\.0\.7"
    with pytest.raises(StoreRefused, match=told), in_our_words("finish"):
        raise BaseParser.parse_error(reply)
