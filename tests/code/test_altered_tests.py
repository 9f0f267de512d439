"""Altered tests: whoever passes the original fails them, and what could not decide is left alone."""

from __future__ import annotations

import ast
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.code.altered_tests import alter_tests, alterable_tests

LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)  # fmt: skip
FORMS = (
    "assert answer() == {0}",
    "assert {0} == answer()",
    "assert answer() == {0}, 'told'",
    "assert repr(answer()) in [{0!r}]",
    "value = answer()\n    assert isinstance(value, type({0})) and value == {0}",
    "for one in [1, 2]:\n        assert one\n    assert not answer() != {0}",
)


def _run(text: str, name: str, answer: Any) -> bool:
    """Runs one test function; returns whether it passed."""
    scope: dict[str, Any] = {"answer": lambda: answer}
    exec(compile(text, "test", "exec"), scope)
    try:
        scope[name]()
    except AssertionError:
        return False
    return True


@given(LITERALS, st.sampled_from(FORMS), st.integers(0, 2**32))
def test_a_right_answer_passes_the_original_and_fails_the_altered(answer: Any, form: str, seed: int) -> None:
    text = "def test_x():\n    " + form.format(repr(answer)) + "\n"
    altered = alter_tests(text, Random(seed))
    assert _run(text, "test_x", answer)
    assert altered is not None
    assert altered.tests == {"test_x"}
    assert not _run(altered.text, "test_x", answer)


@given(st.text(max_size=400), st.integers(0, 100))
def test_any_text_is_altered_into_text_that_parses_or_left_alone(text: str, seed: int) -> None:
    altered = alter_tests(text, Random(seed))
    assert altered is None or ast.parse(altered.text)


@pytest.mark.parametrize(
    "body",
    [
        "if later():\n        return\n    assert f() == 1",
        "for one in cases():\n        assert one == 1",
        "try:\n        assert f() == 1\n    except KeyError:\n        pass",
        "with suppress(AssertionError):\n        assert f() == 1",
        "yield f() == 1",
        "check(f(), 1)",
    ],
)
def test_a_statement_that_may_not_run_or_not_decide_is_left_alone(body: str) -> None:
    assert alter_tests(f"def test_x():\n    {body}\n", Random(0)) is None


@pytest.mark.parametrize(
    "text",
    [
        "@raises(AssertionError)\ndef test_x():\n    assert f() == 1\n",
        "@pytest.mark.xfail\ndef test_x():\n    assert f() == 1\n",
        "@given(integers())\ndef test_x(n):\n    assert f(n) == 1\n",
        "def test_x():\n    assert f() == 1\n\n\ntest_x = other(test_x)\n",
        "def test_x():\n    assert f() == 1\n\n\nif POSIX:\n    def test_x():\n        pass\n",
        "def helper():\n    assert f() == 1\n",
        "def test_x(:\n",
    ],
)
def test_a_test_that_something_else_could_turn_around_is_left_alone(text: str) -> None:
    assert alter_tests(text, Random(0)) is None


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("self.assertIn(f(), [1, 2])", "self.assertNotIn(f(), [1, 2])"),
        ("self.assertTrue(f())", "self.assertFalse(f())"),
        ("assert f() < 3", "assert not f() < 3"),
        ("assert f() in (1, 2), 'told'", "assert f() not in (1, 2), 'told'"),
        ("assert (f()) is  not (g())", "assert (f()) is (g())"),
        ("assert not (f() == g())", "assert (f() == g())"),
        ("assert f() and g()", "assert not (f() and g())"),
    ],
)
def test_where_no_literal_is_expected_the_opposite_is(statement: str, expected: str) -> None:
    altered = alter_tests(f"class TestA:\n    def test_x(self):\n        {statement}\n", Random(0))
    assert altered is not None
    assert altered.tests == {"TestA::test_x"}
    assert expected in altered.text


def test_an_expected_exception_becomes_one_that_is_not_raised() -> None:
    text = "def test_x():\n    with pytest.raises(ValueError, match='no'):\n        f()\n"
    altered = alter_tests(text, Random(0))
    assert altered is not None
    assert "raises(ValueError" not in altered.text
    assert ", match='no'):" in altered.text


def test_only_the_named_tests_are_altered() -> None:
    text = "def test_x():\n    assert f() == 1\n\n\ndef test_y():\n    assert f() == 1\n"
    altered = alter_tests(text, Random(0), {"test_y"})
    assert altered is not None
    assert altered.tests == {"test_y"}
    assert altered.text.count("assert f() == 1\n") == 1
    assert alterable_tests(text) == {"test_x", "test_y"}
    assert alter_tests(text, Random(0), set()) is None


def test_a_failure_skips_nothing_that_tidies_up_where_that_can_be_had() -> None:
    text = (
        "def test_x():\n    f.on = 1\n    assert f() == 1\n    f.on = 0\n    assert f() == 0\n    assert g() == 'a'\n"
    )
    for seed in range(20):
        altered = alter_tests(text, Random(seed))
        assert altered is not None
        assert "assert f() == 1\n    f.on = 0\n" in altered.text


def test_offsets_are_of_bytes_and_line_ends_stay() -> None:
    text = "def test_x():\r\n    assert f('é', \"ü\") == 'déjà'\r\n"
    altered = alter_tests(text, Random(1))
    assert altered is not None
    head, _, tail = altered.text.rpartition(" == ")
    assert head == "def test_x():\r\n    assert f('é', \"ü\")"
    assert tail != "'déjà'\r\n"
    assert len(tail) == len("'déjà'\r\n")
