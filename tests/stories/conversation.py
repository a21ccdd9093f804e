"""What every language is told to do, one command after the other; and what each of them is about."""

from __future__ import annotations

from typing import Any

from tests.support.producing import Command

MANY = 10_000
MIB = 1024 * 1024
SOME = [["some 1"], {"case": "some 2", "value": {}}, {"case": "some 3"}]
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

VALUES: dict[str, Any] = {
    "letters": 'ü ☃ \U0001f600 "\\/ \u2028 \x7f \t',
    "no letters": "",
    "a key of odd letters": {"☃ \U0001f600": {"": 1}},
    "NUL": "a\0b",
    "statements": "%s $1 ? :x '; DROP TABLE orders; --",
    "null": None,
    "truth": [True, False],
    "empty": [[], {}, ""],
    "nested": {"a": [{"b": [{"c": [[[{}]]]}]}]},
    "floats": [1.1, -0.5, 5e-324, 0.1],
    "a whole float": 1.0,
    "ints": [0, -1, 2**31, 2**53 - 1, 1 - 2**53],
    "ints of 64 bits": [2**53 + 1, 2**63 - 1, -(2**63) + 1],
    "numbers in texts": ["1", "1.10", "007"],
    "moments": "2026-08-01T12:00:00+05:30",
}
"""What a language's own values can hold; each goes through its JSON."""
TEXTS: dict[str, tuple[str, Any]] = {
    "big ints as text": (f"[{2**64}, {10**40}, {-(2**63) - 1}]", [2**64, 10**40, -(2**63) - 1]),
    "digits as text": ("[1.10, -0.0, 1E300]", [1.1, -0.0, 1e300]),
    "escapes as text": (r'"\u0000 \ud83d\ude00"', "\0 \U0001f600"),
}
"""What some languages have no value for: sent as JSON text."""
EVERYTHING: dict[str, Any] = {
    "queue": "other", "run_at": "2026-08-01T12:00:00.000007+05:30", "key_window": "1 hour",
    "priority": 7, "max_attempts": 3, "expires_at": "2999-12-31 23:00:00-01:00", "tenant_id": "akmé",
    "traceparent": TRACE, "enqueued_by": "the shop", "headers": {"a": [1, None, {"ü": True}]},
}  # fmt: skip
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a queue with a space": ({"options": {"queue": "no good"}}, "queue_is_a_name"),
    "a queue without a name": ({"options": {"queue": ""}}, "queue_is_a_name"),
    "a long queue": ({"options": {"queue": "q" * 129}}, "queue_is_a_name"),
    "a queue with a brace": ({"options": {"queue": "a{b}"}}, "queue_is_a_name"),
    "a job without a name": ({"job": ""}, "job_is_a_name"),
    "a job over two lines": ({"job": "a\nb"}, "job_is_a_name"),
    "a long job": ({"job": "j" * 201}, "job_is_a_name"),
    "a number for arguments": ({"input": "5"}, "input_is_object_or_array"),
    "null for arguments": ({"input": "null"}, "input_is_object_or_array"),
    "broken JSON": ({"input": '{"a": '}, "22P02"),
    "NaN as text": ({"input": '{"a": NaN}'}, "22P02"),
    "2 MiB": ({"input": {"value": "x" * 2 * MIB}}, "input_at_most_1_mib"),
    "a priority of 101": ({"options": {"priority": 101}}, "priority_within_100"),
    "no attempts": ({"options": {"max_attempts": 0}}, "max_attempts_1_to_1000"),
    "a key without letters": ({"options": {"idempotency_key": ""}}, "idempotency_key_1_to_512_bytes"),
    "a key of 514 bytes": ({"options": {"idempotency_key": "é" * 257}}, "idempotency_key_1_to_512_bytes"),
    "a window without a key": ({"options": {"key_window": "1 hour"}}, "key_window_goes_with_key"),
    "a trace of another form": ({"options": {"traceparent": "00-xyz"}}, "traceparent_is_w3c"),
    "a list of headers": ({"options": {"headers": "[]"}}, "headers_are_an_object"),
    "headers of 17 KiB": ({"options": {"headers": {"x": "y" * 17 * 1024}}}, "headers_at_most_16_kib"),
    "a tenant without letters": ({"options": {"tenant_id": ""}}, "tenant_id_1_to_200_characters"),
    "no end of time": ({"options": {"expires_at": "infinity"}}, "expires_at_is_a_time"),
    "a month of 13": ({"options": {"expires_at": "2026-13-01"}}, "22008"),
    "a delay of words": ({"options": {"delay": "soon"}}, "22007"),
    "a time and a delay": ({"options": {"run_at": "2031-08-01T12:00:00Z", "delay": "1 s"}}, "22023"),
    "an id that is none": ({"options": {"id": "17"}}, "22P02"),
}


def conversation(name: str) -> dict[str, Command]:
    """The commands, each with a name; those of one transaction follow each other."""
    note = f"note.{name}"

    def asks(case: str, **more: Any) -> Command:
        return {"do": "enqueue", "job": note, "input": {"case": case}, **more}

    def order(case: str) -> Command:
        return {"do": "sql", "text": f"INSERT INTO orders VALUES ('{name}', '{case}')"}

    def some(job: str, inputs: list[Any], queue: str) -> Command:
        return {"do": "enqueue_many", "job": job, "input": inputs, "options": {"queue": queue}}

    begin, commit, rollback = ({"do": word} for word in ("begin", "commit", "rollback"))
    told: dict[str, Command] = {}
    for case, value in VALUES.items():
        told[case] = asks(case, input={"case": case, "value": value})
    for case, (text, _) in TEXTS.items():
        told[case] = asks(case, input=f'{{"case": "{case}", "value": {text}}}')
    for case, (changes, _) in REFUSED.items():
        told[case] = asks(case) | changes
    return told | {
        "nothing but a name": {"do": "enqueue", "job": note},
        "absent": asks("absent"),
        "by position": asks("by position", input='["by position", 5]'),
        "everything": asks("everything", options=EVERYTHING | {"idempotency_key": f"é'\"{name}"}),
        "later": asks("later", options={"run_at": "2031-08-01T12:00:00+05:30"}),
        "in a while": asks("in a while", options={"delay": "90 minutes"}),
        "in a moment": asks("in a moment", options={"delay": "0.3 seconds"}),
        "too late": asks("too late", options={"expires_at": "2001-01-01 00:00:00+00"}),
        "nobody": {"do": "enqueue", "job": f"nobody.{name}"},
        "a codec of its own": {
            "do": "sql",
            "text": f"INSERT INTO redisjobs.outbox (job, payload, codec) VALUES ('{note}', 'x', 'zstd')",
        },
        "begin 1": begin, "order 1": order("kept"), "kept": asks("kept"), "commit 1": commit,
        "begin 2": begin, "order 2": order("given up"), "given up": asks("given up"), "rollback 2": rollback,
        "begin 3": begin, "order 3": order("half"), "before": asks("before"),
        "savepoint": {"do": "savepoint", "name": "here"}, "taken back": asks("taken back"),
        "refused inside": asks("refused inside", options={"queue": "no good"}),
        "rollback to": {"do": "rollback_to", "name": "here"}, "after": asks("after"), "commit 3": commit,
        "begin 4": begin, "order 4": order("broken"), "wrong": asks("wrong", options={"priority": 1000}),
        "behind it": asks("behind it"), "rollback 4": rollback,
        "begin 5": begin, "some": some(note, SOME, "other"),
        "many": some(f"many.{name}", [{"n": n} for n in range(MANY)], "many"), "commit 5": commit,
        "begin 6": begin, "many given up": some(f"many.{name}", [{"n": -1}] * 1000, "many"), "rollback 6": rollback,
        "begin 7": begin,
        "first with a key": asks("first with a key", options={"idempotency_key": name, "key_window": "1 hour"}),
        "second with a key": asks("second with a key", options={"idempotency_key": name, "key_window": "1 hour"}),
        "commit 7": commit,
        "third with a key": asks("third with a key", options={"idempotency_key": name, "key_window": "1 hour"}),
        "its key elsewhere": asks("its key elsewhere", options={"idempotency_key": name, "queue": "other"}),
    } | ({} if name == "sql" else {
        "begin 8": begin, "order 8": order("its own refusal"), "no text": {"do": "enqueue_no_text", "job": note},
        "an option that is none": asks("an option that is none", options={"queu": "mail"}),
        "goes on": asks("goes on"), "commit 8": commit,
        "NaN": {"do": "enqueue_nan", "job": note},
        "NUL in a tenant": asks("NUL in a tenant", options={"tenant_id": "a\0b"}),
        "NUL in a job": {"do": "enqueue", "job": f"{note}\0b"},
    })  # fmt: skip
