"""The judge's reader of answers: what a real encoder writes is read as meant, and hostile bytes give no answer."""

from __future__ import annotations

import math
import sys
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay.verify.payload.value_codec as codec
from assay.verify.calls import answers
from assay.verify.calls.answers import MAX_DEPTH, describe_answer, read_answers
from assay.verify.calls.equality import same_answer

from .answer_values import VALUES, encoded, read

pytestmark = pytest.mark.quick


@given(VALUES)
def test_an_encoded_value_is_read_and_equals_itself(value: Any) -> None:
    answer = read(value)
    assert answer is not None
    assert same_answer(answer, answer)


@given(VALUES)
def test_a_decoded_value_encodes_to_the_same_tree(value: Any) -> None:
    tree = encoded(value)
    assert repr(encoded(codec.decode(tree, {}))) == repr(tree) or "S" in repr(tree) or "F" in repr(tree)


@given(VALUES, VALUES)
def test_answers_agree_only_where_python_says_equal(one: Any, two: Any) -> None:
    first, second = read(one), read(two)
    if same_answer(first, second) and "nan" not in repr(one) and isinstance(one, int | str | bytes):
        assert one == two or isinstance(two, float | complex)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (0.1 + 0.2, 0.3),
        ({1, 2, 3}, {3, 2, 1}),
        ({"a": 1.0, "b": 2}, {"b": 2, "a": 1}),
        (math.nan, math.nan),
        (-0.0, 0.0),
        ([{0.1 + 0.2, 5.0}], [{5.0, 0.3}]),
        ({Decimal("1.50"), Decimal(7)}, {Decimal(7), Decimal("1.5")}),
        (Decimal("NaN"), Decimal("NaN")),
        (date(2020, 1, 1), date(2020, 1, 1)),
    ],
)
def test_equal_up_to_order_and_ulps(one: Any, two: Any) -> None:
    assert same_answer(read(one), read(two))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (0.3, 0.3000001), ([1, 2], [2, 1]), ([1], (1,)), (1, True), (1, "1"), (None, False), ({1: 2}, {1: 3}),
        ({1}, {2}), ("a", b"a"), (10**400, 10**400 + 1), (float("inf"), 10**400), ([], {}),
        (Decimal("0.1"), Decimal("0.10000000001")), (Fraction(1, 3), Fraction(1, 4)), (timedelta(1), timedelta(2)),
        (Decimal(1), 1), (Decimal("NaN"), Decimal("Infinity")),
    ],
)  # fmt: skip
def test_unequal_values_differ(one: Any, two: Any) -> None:
    assert not same_answer(read(one), read(two))


def test_a_tolerance_of_the_tests_widens_the_match() -> None:
    assert same_answer(read(0.3), read(0.3000001), tolerance=1e-6)


HOSTILE = [
    b"[7," + b"9" * 10_000_000 + b"]",
    b"[7," + b"[" * 100_000 + b"]" * 100_000 + b"]",
    b'[7,[[0,"ok",NaN]]]',
    b'[7,[[0,"ok",1.5]]]',
    b'[7,[[0,"ok",["f","nope"]]]]',
    b'[7,[[0,"ok",["f","0x1.0p+99999999"]]]]',
    b'[7,[[0,"ok",["f","0x1.0p+9999"]]]]',
    b'[7,[[0,"ok",["f","-0x1.0p+1024"]]]]',
    b'[7,[[0,"ok",["c","0x1.0p+0","0x1.0p+1024"]]]]',
    b'[7,[[0,"ok",["i","0x' + b"f" * 5000 + b'"]]]]',
    b'[7,[[0,"ok","\\ud800"]]]',
    b'[7,[[0,"ok","\xed\xa0\x80"]]]',
    b'[7,[[0,"ok",["d",1,2,1,3]]]]',
    b'[7,[[0,"ok",["d",1]]]]',
    b'[7,[[0,"ok",["S",1,1]]]]',
    b'[7,[[0,"ok",["o",3]]]]',
    b'[7,[[0,"ok",["os.system","x"]]]]',
    b'[7,[[0,"ok",["v","Decimal","1E1000000000"]]]]',
    b'[7,[[0,"ok",["v","Decimal","sNaN"]]]]',
    b'[7,[[0,"ok",["v","Decimal","' + b"9" * 5000 + b'E0"]]]]',
    b'[7,[[0,"ok",["v","Fraction","0x1/0x0"]]]]',
    b'[7,[[0,"ok",["v","Path","/"]]]]',
    b'[7,[[0,"ok",["v",["Decimal"],"1E0"]]]]',
    b'[7,[[0,"ok",{"__class__":"int"}]]]',
    b'[7,[[0,"ok",99007199254740993]]]',
    b'[7,[[0,"ok"]]]',
    b'[7,[[0,"!","SystemExit"]]]',
    b'[7,[[0,"ok",1]],1]',
    b'[7,[[0,"opaque",[]]]]',
    b'[7,[[0,"skip",[[1]]]]]',
    b'[7,[[0,"ok",["x","Span"]]]]',
    b'[7,[[0,"ok",["x","Span",0]]]]',
    b'[7,[[0,"ok",["x","Span",["l"]]]]]',
    b'[7,[[0,"ok",["x","Span",["d",1,2]]]]]',
    b'[7,[[0,"ok",["x","Span",["d","end",1,"end",2]]]]]',
    b'[7,[[0,"ok",["x","Span",["d"],1,2]]]]',
    b'[7,[[0,"ok",["b",0]]]]',
    b'[7,[[0,"ok",["b",true]]]]',
    b'{"7":[[0,"ok",1]]}',
    b"[true,[]]",
    b"\xff\xfe",
]


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_line_gives_no_answer(line: bytes) -> None:
    assert read_answers(line + b"\n") == {}


def test_what_a_worker_names_is_shown_without_control_characters() -> None:
    found = read_answers(b'[7,[[0,"!","a\\u001b[2J",true]]]\n[8,[[0,"ok",["x","\\u001b[2J",["d"]]]]]')
    assert [describe_answer(found[n]).isprintable() for n in (7, 8)] == [True, True]


@pytest.mark.parametrize("twice", ["1,1", '["F",1,2],["F",1,2]', '["l",["S",1,1]],2'])
def test_an_item_that_is_twice_in_a_set_gives_no_answer_at_any_depth(twice: str) -> None:
    tree = f'["S",{twice}]'
    assert read_answers(f'[7,[[0,"ok",["l",{tree}]]]]\n[8,[[0,"ok",["d",{tree},1]]]]'.encode()) == {}


def test_each_part_is_looked_at_once_for_items_that_are_there_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, real = [], answers._number_part
    monkeypatch.setattr(answers, "_number_part", lambda *given: looked.append(1) or real(*given))
    tree = "".join(f'["S",{n},' for n in range(50)) + '"x"' + "]" * 50
    assert read_answers(f'[7,[[0,"ok",{tree}]]]'.encode())
    assert len(looked) == 101


def test_lines_beyond_the_limit_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = []
    monkeypatch.setattr(answers, "_parse", lines.append)
    read_answers(b"\n" * 1_000_000)
    assert len(lines) == answers.MAX_LINES


def test_two_answers_to_one_input_are_none() -> None:
    right = b'[7,[[0,"ok",1]]]\n'
    assert read_answers(right) == {7: ([0, "ok", 1],)}
    assert read_answers(right + right) == {}
    assert read_answers(right + b'[7,[[0,"ok",["o",1]]]]\n') == {}


def test_a_deep_value_is_refused_and_the_next_line_is_read() -> None:
    deep = "[" * 0 + '["l",' * (MAX_DEPTH + 1) + "1" + "]" * (MAX_DEPTH + 1)
    data = f'[1,[[0,"ok",{deep}]]]\n[2,[[0,"ok",1]]]\n'.encode()
    assert list(read_answers(data)) == [2]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    read_answers(data)
    read_answers(b'[7,[[0,"ok",' + data + b"]]]")


def test_a_worker_without_an_answer_differs_even_from_none() -> None:
    assert not same_answer("time", "time")
    assert not same_answer(read(1), "died")


def test_payload_programs_need_no_package_of_ours() -> None:
    folder = Path(codec.__file__).parent
    names = ("plain_values", "value_codec", "call_programs", "call_recorder")
    texts = [(folder / f"{name}.py").read_text(encoding="utf-8") for name in names]
    assert not any("assay." in line for text in texts for line in text.splitlines() if "import" in line.split("#")[0])
    assert sys.version_info >= (3, 8)


@pytest.mark.long
def test_what_comes_after_too_many_nodes_is_no_answer() -> None:
    wide = "[" + ",".join(['"l"', *["1"] * 30_000]) + "]"
    lines = "".join(f'[{n},[[0,"ok",{wide}]]]\n' for n in range(80))
    found = read_answers(lines.encode())
    assert 0 < len(found) < 80
    assert 79 not in found


def test_sets_of_sets_that_differ_are_compared_in_time() -> None:
    one = {frozenset(range(n, n + 60)) for n in range(60)}
    two = {frozenset((*range(n, n + 59), 10_000)) for n in range(60)}
    assert not same_answer(read(one), read(two))
    assert same_answer(read(one), read(set(sorted(one, key=min, reverse=True))))
