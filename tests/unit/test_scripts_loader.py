"""A script is found by its name, and it says itself what it is called with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from redisjobs.base import scripts
from redisjobs.errors import ConfigurationError


@pytest.fixture
def lua(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "lib").mkdir()
    monkeypatch.setattr(scripts, "_folder", lambda: tmp_path)
    scripts.load.cache_clear()
    yield tmp_path
    scripts.load.cache_clear()


def test_a_script_names_its_keys_and_its_leading_arguments(lua: Path):
    (lua / "take.lua").write_text(
        "-- take: read entries.\n--\n-- KEYS  ready\n\n"
        "local ready, jobs = unpack(KEYS)  -- two of them\n"
        "local token, epoch = unpack(ARGV)\n"
        "return ARGV[3]\n"
    )

    script = scripts.load("take")

    assert script.name == "take"
    assert script.keys == ("ready", "jobs")
    assert script.args == ("token", "epoch")
    assert script.sha == hashlib.sha1(script.text.encode()).hexdigest()


def test_libraries_stand_in_front_in_the_order_of_the_line(lua: Path):
    (lua / "lib" / "one.lua").write_text("local function one() end")
    (lua / "lib" / "two.lua").write_text("local function two() end\n")
    body = "-- take: x.\n-- uses lib/two.lua lib/one.lua\nlocal ready = unpack(KEYS)\n"
    (lua / "take.lua").write_text(body)

    script = scripts.load("take")

    assert script.text == "local function two() end\nlocal function one() end\n" + body
    assert script.keys == ("ready",)
    assert script.args == ()
    assert scripts.names() == ["take"]


def test_a_library_that_several_use_stands_once_and_in_front_of_them_all(lua: Path):
    (lua / "lib" / "record.lua").write_text("-- record\n")
    (lua / "lib" / "place.lua").write_text("-- uses lib/record.lua\n-- place\n")
    (lua / "lib" / "ending.lua").write_text("-- uses lib/record.lua\n-- ending\n")
    (lua / "take.lua").write_text("-- uses lib/place.lua lib/ending.lua lib/record.lua\nlocal ready = unpack(KEYS)\n")

    lines = scripts.load("take").text.splitlines()

    assert [line for line in lines if line in {"-- record", "-- place", "-- ending"}] == [
        "-- record",
        "-- place",
        "-- ending",
    ]


def test_libraries_that_use_each_other_are_refused(lua: Path):
    (lua / "lib" / "one.lua").write_text("-- uses lib/two.lua\n")
    (lua / "lib" / "two.lua").write_text("-- uses lib/one.lua\n")
    (lua / "take.lua").write_text("-- uses lib/one.lua\nlocal ready = unpack(KEYS)\n")

    with pytest.raises(ConfigurationError, match=r"lib/one\.lua uses itself through .*lib/two\.lua: take one"):
        scripts.load("take")


def test_a_long_list_may_span_lines_and_bound_its_unpack(lua: Path):
    (lua / "take.lua").write_text("local a,\n      b = unpack(KEYS)\nlocal c, d = unpack(ARGV, 1, 2)\n")

    assert scripts.load("take").keys == ("a", "b")
    assert scripts.load("take").args == ("c", "d")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("return 1\n", r"take\.lua: its first line of code is not .*name every key"),
        ("local a = 1\nlocal b = unpack(KEYS)\n", "its first line of code"),
        ("local a = unpack(KEYS)\nreturn ARGV[1]\n", r"take\.lua: ARGV is used.*name the leading arguments"),
        ("local a, b = unpack(KEYS, 1, 3)\n", r"take\.lua: unpack\(…, 1, 3\) does not fit 2 names"),
        ("local a, a = unpack(KEYS)\n", r"take\.lua: a name stands twice in 'a, a'"),
        ("-- uses lib/one\nlocal a = unpack(KEYS)\n", r"take\.lua: cannot read 'lib/one'.*write lib/NAME\.lua"),
        ("-- uses lib/none.lua\nlocal a = unpack(KEYS)\n", r"no Lua script lib/none\.lua in .*install"),
    ],
)
def test_a_script_in_another_form_is_refused_by_name(lua: Path, text: str, message: str):
    (lua / "take.lua").write_text(text)

    with pytest.raises(ConfigurationError, match=message):
        scripts.load("take")


def test_an_unknown_script_is_refused_with_the_known_ones(lua: Path):
    (lua / "take.lua").write_text("local a = unpack(KEYS)\n")

    with pytest.raises(ConfigurationError, match=r"no Lua script tkae\.lua in .*load one of take"):
        scripts.load("tkae")


def test_every_script_of_the_project_loads_and_explains_each_of_its_keys_and_arguments():
    for script in map(scripts.load, scripts.names()):
        file = Path(__file__).parents[2] / "lua" / f"{script.name}.lua"
        header = "".join(line for line in file.read_text().splitlines(keepends=True) if line.startswith("--"))
        assert header.startswith(f"-- {script.name}: ")
        for part in ("KEYS", "ARGV", "Reply", "Cost"):
            assert part in header or (part == "ARGV" and not script.args), f"{script.name}: no {part} in the header"
        for name in script.keys:
            # the streams of a queue, ready0 to ready3, may be explained together
            assert name.rstrip("0123") in header, f"{script.name}: the header does not explain {name}"
