"""What goes in comes out, in value and in type; what cannot is refused with its place."""

from __future__ import annotations

import json
import math
import pickle
import string
from collections import OrderedDict, defaultdict
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redisjobs.base.codec import LARGEST, Codecs, EncryptedCodec
from redisjobs.errors import ConfigurationError, DecodeError, EncodeError, OptionError

BUILT_IN = Codecs()
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
ZONES = st.one_of(
    st.none(),
    st.just(UTC),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata"]).map(ZoneInfo),
    st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone),
    st.just(timezone(timedelta(hours=1), "named")),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(10**60), 10**60), TEXT, st.binary(), st.uuids(),
    st.floats(allow_nan=False, allow_infinity=False), st.decimals(allow_nan=False, allow_infinity=False),
    st.datetimes(timezones=ZONES, allow_imaginary=False), st.dates(), st.timedeltas(),
    st.times(timezones=st.none() | st.just(UTC)),
)  # fmt: skip
KEYS = st.one_of(TEXT, st.integers(), st.booleans(), st.none(), st.uuids(), st.dates(), st.tuples(st.integers(), TEXT))
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(TEXT, inner), st.dictionaries(KEYS, inner),
        st.sets(KEYS), st.frozensets(KEYS),
    ),
    max_leaves=20,
)  # fmt: skip


def same(left: Any, right: Any) -> bool:
    """Equal in value and in type, all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(same(*pair) for pair in zip(left, right, strict=True))
    if isinstance(left, dict):
        return len(left) == len(right) and all(map(same, left.items(), right.items()))
    if isinstance(left, (set, frozenset)):
        return {(type(each), each) for each in left} == {(type(each), each) for each in right}
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    if isinstance(left, Decimal):
        return repr(left) == repr(right)
    if isinstance(left, (datetime, time)):
        return repr(left) == repr(right)
    return bool(left == right)


def round_trip(value: Any, codecs: Codecs = BUILT_IN) -> Any:
    return codecs.decode(*codecs.encode(value))


@given(VALUES)
@settings(max_examples=400, deadline=None)
def test_any_value_comes_back_in_value_and_in_type(value):
    assert same(round_trip(value), value)


@given(VALUES)
@settings(max_examples=100, deadline=None)
def test_any_value_comes_back_through_encryption(value):
    assert same(round_trip(value, ENCRYPTED), value)


ENCRYPTED = Codecs(EncryptedCodec([EncryptedCodec.generate_key()]))


@pytest.mark.parametrize(
    "value",
    [
        {"id": 130775545883395173, "a": [], "z": -0.0, "p": 1.10},
        [1, 1.0, True, "1", None],
        [2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**40, 10**500],
        {"é ☃ \U0001f600": "\u2028"},
        1e22,
        5e-324,
        "plain",
    ],
)
def test_what_json_carries_exactly_is_json(value):
    codec, payload = BUILT_IN.encode(value)

    assert codec == "json"
    assert same(json.loads(payload), value)
    assert same(BUILT_IN.decode(codec, payload), value)


@pytest.mark.parametrize(
    "value",
    [
        (1, 2), {1}, frozenset({1}), b"x", Decimal("1.10"), Decimal("-0"), Decimal("1E+500"), uuid4(), {1: 2},
        {None: 1}, {True: 1}, {"a": {(1, "x"): 1}}, "a\0b", {"a\0": 1}, [10**700, 2**20_000], [-(2**20_000)],
        timedelta(microseconds=-1),
        date.min, date.max, datetime.min, datetime.max, time.max,  # noqa: DTZ901
        datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2026, 1, 1, 1, 1, 1, 7),  # noqa: DTZ001
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1, seconds=1, microseconds=1))),
        time(1, 2, 3, 4, tzinfo=UTC),
        ((), (1, (2,))), {frozenset({(1, 2)}): set()},
    ],
)  # fmt: skip
def test_what_json_does_not_carry_is_msgpack(value):
    codec, payload = BUILT_IN.encode([value])

    assert codec == "msgpack"
    assert same(BUILT_IN.decode(codec, payload), [value])


def test_utc_is_the_very_same_utc():
    assert round_trip(datetime(2026, 1, 1, tzinfo=UTC)).tzinfo is UTC


class Color(Enum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


class Season(tzinfo):
    """A zone of a kind that nothing can name."""

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        return None if dt is None else timedelta(hours=1)

    def dst(self, dt: datetime | None) -> None:
        return None

    def tzname(self, dt: datetime | None) -> str:
        return "season"


class AlwaysTwo(tzinfo):
    """A zone of somebody else's that never changes."""

    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(hours=2)

    def dst(self, dt: datetime | None) -> None:
        return None

    def tzname(self, dt: datetime | None) -> str:
        return "two"


def test_a_fixed_zone_of_another_library_comes_back_as_its_offset():
    moment = datetime(2026, 1, 1, tzinfo=AlwaysTwo())

    assert round_trip(moment) == moment
    assert round_trip(moment).tzinfo == timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        ({"order": {"lines": [0, 1, 2, {"price": math.nan}]}}, "order.lines[3].price", "finite"),
        ({"a": [math.inf]}, "a[0]", "finite"),
        ({"a": -math.inf}, "a", "finite"),
        ({"a": Decimal("NaN")}, "a", "finite"),
        ({"a": Decimal("-Infinity")}, "a", "finite"),
        ({"a": "\udc7f"}, "a", "lone surrogate"),
        ({"a": {"b": ("x", {"\ud800": 1})}}, "a.b[1]['\\ud800']", "lone surrogate"),
        ({"a": object()}, "a", "nothing says how to bring it back"),
        ({"a": {"b c": 1j}}, "a['b c']", "complex"),
        ({"a": {7: [Path("x")]}}, "a[7][0]", "PosixPath"),
        ({"a": Color.RED}, "a", "Color"),
        ({"a": Number.ONE}, "a", "would come back as plain int"),
        ({"a": Text("x")}, "a", "would come back as plain str"),
        ({"a": OrderedDict()}, "a", "OrderedDict"),
        ({"a": defaultdict(list)}, "a", "defaultdict"),
        ({"a": bytearray(b"x")}, "a", "bytearray"),
        ({"a": {1, math.nan}}, "a[", "finite"),
        ({"a": datetime(2026, 1, 1, tzinfo=Season())}, "a", "Season"),
        ({"a": range(3)}, "a", "range"),
        ({"a": print}, "a", "builtin_function"),
        ({"a": ValueError()}, "a", "ValueError"),
    ],
)  # fmt: skip
def test_what_cannot_travel_is_refused_with_its_place(value, path: str, why: str):
    with pytest.raises(EncodeError, match=why) as refused:
        BUILT_IN.encode(value)

    assert refused.value.path.startswith(path)
    assert str(refused.value).startswith(path)


def test_a_cycle_is_refused():
    value: dict[str, Any] = {"a": []}
    value["a"].append(value)

    with pytest.raises(EncodeError, match="contains itself") as refused:
        BUILT_IN.encode(value)

    assert len(refused.value.path) < 200


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: (inner,), lambda inner: {"a": inner}])
def test_two_hundred_levels_come_back_and_more_are_refused(wrap):
    value: Any = 1
    for _ in range(200):
        value = wrap(value)

    assert round_trip(value) == value
    with pytest.raises(EncodeError, match="deeper than 200"):
        BUILT_IN.encode(wrap(value))


def test_a_payload_nested_without_end_is_refused_and_ends_no_process():
    tuples = b"\x92\xc7\x00\x08" * 200_000 + b"\x01"

    with pytest.raises(DecodeError):
        BUILT_IN.decode("msgpack", tuples)


def test_a_megabyte_is_the_most():
    BUILT_IN.encode("x" * (LARGEST - 2))

    with pytest.raises(EncodeError, match="are 1048577 bytes encoded, and 1048576 is the most"):
        BUILT_IN.encode("x" * (LARGEST - 1))
    with pytest.raises(EncodeError, match="bytes encoded"):
        ENCRYPTED.encode("x" * (LARGEST - 2))


def test_no_long_value_stands_in_an_error():
    secret = "s" * 1000

    with pytest.raises(EncodeError) as refused:
        BUILT_IN.encode({"a": {secret: math.nan, f"{secret}\udc7f": 1}})

    assert "s" * 61 not in str(refused.value)


@pytest.mark.parametrize(
    ("codec", "payload"),
    [
        ("json", b""),
        ("json", b"secret"),
        ("json", b'{"a": "secret'),
        ("json", b'{"a": NaN, "b": "secret"}'),
        ("json", b'["secret"] x'),
        ("json", b"\xff\xfesecret"),
        ("json", b"[" * 100_000),
        ("json", b"1" * 5000),
        ("msgpack", b""),
        ("msgpack", b"\xc1secret"),
        ("msgpack", b"\x91" * 100_000),
        ("msgpack", msgpack.packb("secret") + b"x"),
        ("msgpack", msgpack.packb(msgpack.ExtType(99, b"secret"))),
        ("msgpack", msgpack.packb(msgpack.ExtType(2, b"secret"))),
        ("msgpack", msgpack.packb(msgpack.ExtType(6, b"secret"))),
        ("msgpack", msgpack.packb(msgpack.ExtType(7, b"secret"))),
        ("msgpack", b"\x81\x91\x01\x02"),
        ("msgpack", pickle.dumps("secret")),
        ("pickle", pickle.dumps("secret")),
        ("encrypted", b"secret"),
    ],
)
def test_what_cannot_be_read_is_told_and_not_shown(codec: str, payload: bytes):
    with pytest.raises(DecodeError) as refused:
        BUILT_IN.decode(codec, payload)

    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


class Canary:
    """Would touch a file if a pickle of it were loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


def test_a_pickle_runs_nothing(tmp_path: Path):
    canary = tmp_path / "canary"
    for codec in ("json", "msgpack", "pickle", "encrypted"):
        with pytest.raises(DecodeError):
            ENCRYPTED.decode(codec, pickle.dumps(Canary(canary)))

    assert not canary.exists()


def test_json_with_spaces_around_is_json():
    assert BUILT_IN.decode("json", b' {"a" : [1 ,2]}\n') == {"a": [1, 2]}


class TestEncryption:
    def test_nothing_of_the_value_is_to_be_seen(self):
        codec, payload = ENCRYPTED.encode({"secret": "secret"})

        assert codec == "encrypted"
        assert b"secret" not in payload

    def test_the_same_value_looks_different_each_time(self):
        assert ENCRYPTED.encode(1) != ENCRYPTED.encode(1)

    def test_an_old_key_still_opens_what_it_closed(self):
        old, new = EncryptedCodec.generate_key(), EncryptedCodec.generate_key()
        codec, payload = Codecs(EncryptedCodec([old])).encode([1, (2,)])

        assert Codecs(EncryptedCodec([new, old])).decode(codec, payload) == [1, (2,)]
        with pytest.raises(DecodeError, match=r"no key given here opens it \(1 tried\)"):
            Codecs(EncryptedCodec([new])).decode(codec, payload)

    def test_the_first_key_closes(self):
        old, new = EncryptedCodec.generate_key(), EncryptedCodec.generate_key()

        codec, payload = Codecs(EncryptedCodec([new, old])).encode(1)

        assert Codecs(EncryptedCodec([new])).decode(codec, payload) == 1

    @pytest.mark.parametrize("place", range(0, 40, 3))
    def test_a_changed_bit_is_seen(self, place: int):
        codec, payload = ENCRYPTED.encode("some text of some length")
        changed = bytearray(payload)
        changed[place] ^= 1

        with pytest.raises(DecodeError):
            ENCRYPTED.decode(codec, bytes(changed))

    def test_what_was_written_before_it_is_still_read(self):
        assert ENCRYPTED.decode(*BUILT_IN.encode({"a": (1,)})) == {"a": (1,)}

    def test_bytes_are_a_key_too(self):
        codecs = Codecs(EncryptedCodec([b"k" * 32]))

        assert round_trip(5, codecs) == 5

    @pytest.mark.parametrize("keys", [[], "x" * 32, [b"short"], ["not base64 ☃"], [""], [5]])
    def test_what_is_no_key_is_refused_and_not_shown(self, keys):
        with pytest.raises(ConfigurationError) as refused:
            EncryptedCodec(keys)

        assert "short" not in str(refused.value)


class Reversed:
    """A codec of one's own."""

    name = "reversed"

    def wrap(self, codec: str, payload: bytes) -> bytes:
        return payload[::-1] + codec.encode()[:1]

    def unwrap(self, stored: bytes) -> tuple[str, bytes]:
        return ("json" if stored.endswith(b"j") else "msgpack"), stored[:-1][::-1]


def test_a_codec_of_ones_own_is_found_by_its_name():
    codecs = Codecs(Reversed())

    assert codecs.encode([1])[0] == "reversed"
    assert round_trip([1, (2,)], codecs) == [1, (2,)]
    with pytest.raises(DecodeError, match="'reversed' is not known here: this app reads json, msgpack"):
        BUILT_IN.decode("reversed", b"")


@pytest.mark.parametrize("name", ["json", "msgpack", "", "A", "a b", "x" * 41])
def test_a_codec_has_a_name_of_its_own(name: str):
    codec = Reversed()
    codec.name = name

    with pytest.raises(OptionError, match="codec"):
        Codecs(codec)


def test_every_printable_key_has_a_path_that_can_be_read():
    for sign in string.printable:
        with pytest.raises(EncodeError) as refused:
            BUILT_IN.encode({"a": {sign: math.nan}})
        assert refused.value.path.isprintable()


def test_a_uuid_keeps_its_bytes():
    value = UUID("00000000-0000-0000-0000-000000000001")

    assert round_trip(value) == value
