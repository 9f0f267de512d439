"""The language of judge and worker, without sandboxes: what goes over comes back, and nothing else does."""

from __future__ import annotations

import collections
import contextlib
import datetime
import decimal
import fractions
import functools
import json
import math
import operator
import os
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=5)
    | st.binary(max_size=4)
    | st.complex_numbers()
    | st.just(1 << 200)
    | st.decimals(-(10**40), 10**40, allow_nan=False)
    | st.fractions()
    | st.dates()
    | st.timedeltas()
    | st.uuids()
    | st.datetimes(timezones=st.none() | st.just(datetime.UTC), allow_imaginary=False)
    | st.times()
)
KEYS = st.none() | st.integers() | st.text(max_size=3) | st.tuples(st.integers(), st.text(max_size=2))
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.sets(KEYS, max_size=3)
        | st.frozensets(KEYS, max_size=3)
        | st.lists(inner, max_size=3).map(collections.deque)
        | st.dictionaries(KEYS, inner, max_size=3).map(collections.OrderedDict)
        | st.builds(range, st.integers(-9, 9), st.integers(-9, 9))
    ),
    max_leaves=20,
)


def there_and_back(programs: Any, value: Any) -> Any:
    """A value from the judge to a worker; an equal one, made there, back to the judge."""
    judge = programs.splice_codec.Heap("shop")
    root = judge.value(value)
    message = json.loads(json.dumps([root, judge.take_entries()]))
    first = programs.splice_worker.Call(programs.splice_worker.Worker("shop", {}, -1, -1))
    first.add_entries(message[1])
    made = first.value(message[0])
    second = programs.splice_codec.Heap("shop")
    answer = [second.value(made)]
    answer = json.loads(json.dumps([*answer, second.take_entries()]))
    heap = programs.splice_codec.Heap("shop")
    decoder = programs.splice_decoder.Decoder(heap, {}, "shop", lambda _: iter(()))
    decoder.add_entries(answer[1])
    return decoder.value(answer[0])


@pytest.mark.long
@settings(deadline=None, max_examples=150)
@given(value=VALUES)
def test_values_come_back_with_their_exact_types(programs: Any, value: Any) -> None:
    back = there_and_back(programs, value)
    assert type(back) is type(value)
    assert repr(back) == repr(value) or back == value


def test_an_ordered_dictionary_comes_back_with_its_keys_in_order(programs: Any) -> None:
    value = collections.OrderedDict(a=1, b=2, c=3)
    value.move_to_end("a")
    back = there_and_back(programs, value)
    assert (list(back), len(back), list(back.items())) == (["b", "c", "a"], 3, [("b", 2), ("c", 3), ("a", 1)])
    assert back == value


def test_sharing_and_cycles_survive(programs: Any) -> None:
    shared: list[Any] = [1]
    value = {"a": shared, "b": (shared, fractions.Fraction(1, 3))}
    shared.append(value)
    back = there_and_back(programs, value)
    assert back["a"] is back["b"][0]
    assert back["a"][1] is back


def test_depth_needs_no_recursion(programs: Any) -> None:
    value: list[Any] = []
    for _ in range(50_000):
        value = [value]
    back = there_and_back(programs, value)
    for _ in range(50_000):
        (back,) = back
    assert back == []


class Price(decimal.Decimal):
    pass


@pytest.mark.parametrize(
    "value",
    [
        Price("1.5"),
        decimal.Decimal("sNaN"),
        decimal.Decimal("1E+10001"),
        fractions.Fraction(1, 1 << 20_000),
        datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(0), "home")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_beyond_the_bounds_or_of_a_subclass_is_not_sent_as_plain(programs: Any, value: Any) -> None:
    assert programs.plain_values.write_plain(value) is None
    with pytest.raises(programs.splice_codec.EncodeError):
        there_and_back(programs, value)


@pytest.mark.parametrize("text", ["1.50", "1E+3", "-0", "-Infinity", "NaN", "0E-7"])
def test_a_decimal_keeps_sign_digits_and_exponent(programs: Any, text: str) -> None:
    assert str(there_and_back(programs, decimal.Decimal(text))) == text


def test_plain_values_come_back_whatever_the_context(programs: Any) -> None:
    values = [decimal.Decimal("1.25E+30"), datetime.time(1, 2, fold=1), uuid.UUID(int=7)]
    with decimal.localcontext() as context:
        context.prec, context.capitals = 2, 0
        assert there_and_back(programs, values) == values


def test_zero_keeps_its_sign(programs: Any) -> None:
    assert math.copysign(1, there_and_back(programs, -0.0)) == -1


HOSTILE: list[tuple[Any, list[Any]]] = [
    ([0], [["t", [0]]]),
    ([0], [["t", [1]], ["t", [0]]]),
    ([0], [["s", [1]], ["l"]]),
    ([0], [["d", 1, 2, 1, 3]]),
    ([0], [["d", 1]]),
    ([0], [["s", 1, 1]]),
    ([0], [["f", 1, 1.0]]),
    ([0], [["dd", [1]], ["B", "object"]]),
    ([0], [["s", *[{"i": hex(n * (2**61 - 1))} for n in range(1, 300)]]]),
    ([0], [["d", *[part for n in range(1, 300) for part in ({"i": hex(n * (2**61 - 1))}, n)]]]),
    ([0], [["s", [1]], *[["t", [n + 2], [n + 2]] for n in range(40)], ["t", 1]]),
    ([0], [["d", *[part for _ in range(3000) for part in ([1], 1)]], ["t", *range(30_000)]]),
    ([0], [["f", [1]], ["l"]]),
    ([0], [["q", -1]]),
    ([0], [["o", ["shop", "Basket"], {}]]),
    ([0], [["o", ["collections", "UserDict"], {}]]),
    ([0], [["C", "shop", "Basket"]]),
    ([0], [["B", "type"]]),
    ([0], [["k"]]),
    ([0], [["m", 1, "x"]]),
    ([0], [["x", "y"]]),
    ([0], [["ra", []]]),
    ([0], [[]]),
    ([0], ["l"]),
    ([5], []),
    ([-1], []),
    ([True], []),
    ([0.0], [["l"]]),
    ({"i": "0x" + "f" * 30_000}, []),
    ({"i": "x"}, []),
    ({"b": "zz"}, []),
    ({"c": ["1", 2]}, []),
    ({"range": [1, 2, 0]}, []),
    ({"e": "exit"}, []),
    ({"a": 1, "b": 2}, []),
    ({"v": ["Decimal", "sNaN"]}, []),
    ({"v": ["Decimal", "NaN12"]}, []),
    ({"v": ["Decimal", "1E1000000000"]}, []),
    ({"v": ["Decimal", "1E10001"]}, []),
    ({"v": ["Decimal", "1" * 4001 + "E0"]}, []),
    ({"v": ["Decimal", "9" * 10**6 + "E0"]}, []),
    ({"v": ["Decimal", "1_0E0"]}, []),
    ({"v": ["Decimal", "01E0"]}, []),
    ({"v": ["Decimal", "\u0661E0"]}, []),
    ({"v": ["Decimal", "1E+1"]}, []),
    ({"v": ["Decimal", 1]}, []),
    ({"v": ["Fraction", "0x1/0x0"]}, []),
    ({"v": ["Fraction", "0x2/0x4"]}, []),
    ({"v": ["Fraction", "0x1/0x" + "f" * 4097]}, []),
    ({"v": ["date", "2020-02-30"]}, []),
    ({"v": ["date", "20200201"]}, []),
    ({"v": ["datetime", "2020-01-01T00:00:00"]}, []),
    ({"v": ["datetime", "2020-01-01T00:00:00.000000+24:00"]}, []),
    ({"v": ["timedelta", "9999999999 0 0"]}, []),
    ({"v": ["timedelta", "0 86400 0"]}, []),
    ({"v": ["timezone", "5 0 0"]}, []),
    ({"v": ["UUID", "0" * 31 + "G"]}, []),
    ({"v": ["Path", "/etc/passwd"]}, []),
    ({"v": ["Decimal"]}, []),
    ({"v": [["Decimal"], "1E0"]}, []),
    ({"v": "Decimal"}, []),
]


@pytest.mark.parametrize(("root", "entries"), HOSTILE, ids=lambda part: str(part)[:40])
def test_a_hostile_reply_is_refused(programs: Any, root: Any, entries: list[Any]) -> None:
    heap = programs.splice_codec.Heap("shop")
    decoder = programs.splice_decoder.Decoder(heap, {}, "shop", lambda _: iter(()))
    with pytest.raises(programs.splice_decoder.RefusedReply):
        read(decoder, root, entries)


DEEP = {
    "queues": [["q", None], *(["q", None, [n]] for n in range(100_000))],
    "default dictionaries": [["dd", None], *(["dd", None, 1, [n]] for n in range(100_000))],
    "queues and then a fault": [["q", None], *(["q", None, [n]] for n in range(100_000)), ["d", 1]],
    "queues in a circle": [["q", None, [n + 1]] for n in range(200)] + [["q", None, [0]]],
}


@pytest.mark.parametrize("name", DEEP)
def test_containers_too_deep_to_be_freed_are_refused_and_emptied(programs: Any, name: str) -> None:
    heap = programs.splice_codec.Heap("shop")
    decoder = programs.splice_decoder.Decoder(heap, {}, "shop", lambda _: iter(()))
    with pytest.raises(programs.splice_decoder.RefusedReply, match="queues too deep"):
        read(decoder, [len(DEEP[name]) - 1], DEEP[name])
    assert not any(heap.objects)


def test_containers_side_by_side_are_read(programs: Any) -> None:
    entries = [["q", None, 1], *(["q", None, [0]] for _ in range(1000)), ["dd", None, 1, [1000]]]
    decoder = programs.splice_decoder.Decoder(programs.splice_codec.Heap("shop"), {}, "shop", lambda _: iter(()))
    one = collections.deque([1])
    assert read(decoder, [1001], entries) == {1: collections.deque([one])}


def read(decoder: Any, root: Any, entries: list[Any]) -> Any:
    decoder.add_entries(entries)
    return decoder.value(root)


KINDS = st.sampled_from(["l", "t", "d", "s", "f", "o", "dd", "q", "C", "it"])


@pytest.mark.long
@settings(deadline=None, max_examples=200)
@given(
    entries=st.lists(st.lists(KINDS | st.integers() | st.just([0]) | st.just([1]))),
    root=st.just([0]) | st.integers() | st.dictionaries(st.sampled_from("ibcev"), st.text(), max_size=2),
)
def test_random_replies_are_values_or_refused(programs: Any, entries: list[Any], root: Any) -> None:
    decoder = programs.splice_decoder.Decoder(programs.splice_codec.Heap("shop"), {}, "shop", lambda _: iter(()))
    with contextlib.suppress(programs.splice_decoder.RefusedReply):
        read(decoder, root, entries)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\xff\xff\xff\xff",
        b"\0\0\0\2[]",
        b"\0\0\0\1{",
        b"\0\0\0\3\xff\xff\xff",
        b"\0\0\x23\x28" + b"9" * 9000,
    ],
    ids=range(7),
)
def test_bytes_that_are_no_frame_are_a_broken_channel(programs: Any, data: bytes) -> None:
    reads, writes = os.pipe()
    os.write(writes, data)
    os.close(writes)
    with pytest.raises(programs.splice_codec.ChannelError):
        programs.splice_codec.read_frame(reads)
    os.close(reads)


def _entry(programs: Any, value: Any) -> list[Any]:
    return programs.splice_codec.Heap("shop").entry(value)


@pytest.mark.parametrize("value", [str.format, list.append, dict.__getitem__])
def test_a_method_of_a_builtin_type_is_named_and_runs_at_the_other_end(programs: Any, value: Any) -> None:
    entry = _entry(programs, value)
    assert entry == ["F", "builtins", value.__qualname__]
    call = programs.splice_worker.Call(programs.splice_worker.Worker("shop", {}, -1, -1))
    call.add_entries([entry])
    assert call.value([0]) is value


@pytest.mark.parametrize(("method", "argument"), [("{:.2f}".format, 1.234), ([4, 5].__getitem__, 1), ((3).__add__, 4)])
def test_a_method_of_a_plain_value_runs_at_the_other_end(programs: Any, method: Any, argument: object) -> None:
    judge = programs.splice_codec.Heap("shop")
    root = judge.value(method)
    call = programs.splice_worker.Call(programs.splice_worker.Worker("shop", {}, -1, -1))
    call.add_entries(judge.take_entries())
    assert call.value(root)(argument) == method(argument)
    assert call.value(root) is not method


@pytest.mark.parametrize("value", [lambda x: x, functools.partial(lambda x, y: x, 1), operator.itemgetter(0)])
def test_what_a_test_defines_stays_and_may_be_called(programs: Any, value: Any) -> None:
    assert _entry(programs, value) == ["k"]


@pytest.mark.parametrize(
    "value", [pytest.fail, functools.partial(pytest.fail), operator.methodcaller("format"), st.none]
)
def test_a_function_of_another_package_is_not_lent(programs: Any, value: Any) -> None:
    with pytest.raises(programs.splice_codec.EncodeError, match="no test defines"):
        _entry(programs, value)
