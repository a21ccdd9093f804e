"""No script builds a key's name: it has those that it is given, and it uses each of them.

`tests/services/test_lua_keys.py` runs them on a cluster node and compares what they touch.
"""

from __future__ import annotations

import re

import pytest

from redisjobs.base import scripts
from redisjobs.broker.keys import Keys

NAMES = {
    "life", "jobs", "runs", "due", "keys", "windows", "outcomes", "graves", "cancels", "ready0", "ready1", "ready2",
    "ready3", "shares", "ring", "lanes", "behind", "workers", "seen",
    "held", "expiry", "used", "line", "heads", "idle", "asleep", "tickets", "rates", "look", "limits",
}  # fmt: skip


def code_of(name: str) -> str:
    """A script without its comments."""
    return re.sub(r"--.*", "", scripts.load(name).text)


@pytest.mark.parametrize("name", scripts.names())
def test_a_script_names_the_keys_of_one_queue_and_uses_each(name: str):
    script, code = scripts.load(name), code_of(name)

    assert set(script.keys) <= NAMES
    unused = [key for key in script.keys if len(re.findall(rf"\b{key}\b", code)) < 2]
    assert unused == []


@pytest.mark.parametrize("name", scripts.names())
def test_no_key_is_written_out_or_put_together(name: str):
    for call in re.findall(r"redis\.p?call\(([^,]+),([^,)]+)", code_of(name)):
        command, key = (part.strip() for part in call)
        if command in ("'TIME'", "'XREADGROUP'", "command") or key in ("'CREATE'", "'CONSUMERS'", "'DELCONSUMER'"):
            continue  # their keys stand further on
        assert re.fullmatch(r"[a-z_0-9.]+(\[[a-z_0-9.]+( \+ 1)?\])?", key), f"{name}: {command} on {key}"


def test_all_keys_of_a_queue_share_one_slot():
    keys = Keys()

    made = {key for name in scripts.names() for key in keys.of("mail", scripts.load(name))} | {
        keys.result("mail", bytes(16))
    }

    assert {re.findall(rb"{[^}]*}", key)[0] for key in made} == {b"{mail}"}
