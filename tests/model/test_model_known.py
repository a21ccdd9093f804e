"""No script and no statement is new or gone without the model knowing of it."""

from __future__ import annotations

from redisjobs.base import scripts, statements
from tests.model import known, marks

REMEDY = "model it, or say in tests/model/known.py why not"


def test_each_script_is_in_the_model_or_has_a_reason_not_to_be():
    assert not set(known.SCRIPTS) & set(known.SCRIPTS_LEFT)
    assert set(scripts.names()) == set(known.SCRIPTS) | set(known.SCRIPTS_LEFT), REMEDY


def test_each_statement_of_the_road_is_in_the_model_or_has_a_reason_not_to_be():
    lists = (known.STATEMENTS, known.SAME_AS, known.STATEMENTS_LEFT)
    told = [name for each in lists for name in each]
    assert len(told) == len(set(told)), "a statement is on two lists"
    there = {f"{station}.{name}" for station in statements.stations() for name in statements.load(station)}
    assert set(told) <= there, "a statement is gone: take it off tests/model/known.py"
    assert {name for name in there if name.split(".")[0] in known.STATIONS} <= set(told), REMEDY


def test_each_station_is_on_a_list():
    assert set(statements.stations()) == set(known.STATIONS) | set(known.STATIONS_LEFT), REMEDY


def test_the_model_has_a_method_for_each_by_its_name():
    for name, owner in known.SCRIPTS.items():
        assert callable(getattr(owner, name, None)), f"{owner.__name__} has no {name}"
    for name, owner in known.STATEMENTS.items():
        method = name.split(".")[1]
        assert callable(getattr(owner, method, None)), f"{owner.__name__} has no {method}"


def test_what_is_part_of_something_else_names_what_is_there():
    for told in known.SAME_AS.values():
        owner = told.split(".")[0]
        assert owner in {"Postgres", "PostgresOfRuns", "Relays", "Workers", "wakeup"}, told


def test_what_the_model_has_has_not_changed_unseen():
    """The model may not fall behind the code: whoever changes a script or a statement that it has looks at both."""
    seen, now = marks.seen(), marks.now()
    changed = sorted(name for name in seen.keys() | now.keys() if seen.get(name) != now.get(name))
    assert not changed, (
        f"changed since the model was held against them: {', '.join(changed)}; see that its methods of these names "
        "still do the same, then `python -m tests.model seen`"
    )
