"""Options written as `key=value`: one way for all of them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import UserError
from assay.pairs import read_pairs, read_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7), ("-3", -3), ("+3", 3), ("007", 7), ("1_000", 1000), (".5", 0.5), ("1e3", 1000.0),
        ("true", True), ("null", "null"),
        ('"7"', "7"), ("[1, 2]", [1, 2]), ('[{"kind": "noise"}]', [{"kind": "noise"}]), ("map", "map"), ("", ""),
        ("a=b", "a=b"), ("nan", "nan"), ("inf", "inf"), ("1e999", "1e999"), ("[1, 2", "[1, 2"),
        ("3.11-slim", "3.11-slim"), ("[" * 100_000, "[" * 100_000), ("9" * 10_000 + "x", "9" * 10_000 + "x"),
    ],
)  # fmt: skip
def test_a_value_is_what_it_reads_as(text: str, value: Any) -> None:
    found = read_value(text)
    assert (found, type(found)) == (value, type(value))


@given(st.text())
def test_no_value_is_an_error_or_a_number_that_is_none(text: str) -> None:
    found = read_value(text)
    assert not isinstance(found, float) or math.isfinite(found)


def test_keys_are_given_once_and_values_may_hold_equals_signs() -> None:
    assert read_pairs(["a=1", "b=x=y", "c="], "--knob", "") == {"a": 1, "b": "x=y", "c": ""}
    assert read_pairs(["python:3.11=scratch"], "--base", "", named=bool) == {"python:3.11": "scratch"}


@pytest.mark.parametrize(
    ("pairs", "what"),
    [
        (["a"], "'a' is not of the form"),
        (["=1"], "'=1' is not of the form"),
        (["a-b=1"], "'a-b=1' is not of the form"),
        (["a=1", "a=1"], "'a=1' is given twice"),
    ],
)
def test_another_form_is_named_with_what_to_write(pairs: list[str], what: str) -> None:
    with pytest.raises(UserError, match=f"--knob: {what}.*; write KEY=VALUE"):
        read_pairs(pairs, "--knob", "write KEY=VALUE")
