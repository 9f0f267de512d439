"""Altered tests: whoever passes the original fails them, and what could not decide is left alone."""

from __future__ import annotations

import ast
import builtins
import math
from fractions import Fraction
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.code import altered_tests
from assay.code.altered_tests import alter_program, alter_tests, alterable_tests

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


STORED = (
    "assert answer() == expected",
    "assert expected == answer(), 'told'",
    "result = answer()\n    assert result == given.value",
    "assert answer() in [expected]",
    "for due in [expected, expected]:\n        assert answer() == due",
)


def _run(text: str, name: str, answer: Any, scope: dict[str, Any] | None = None) -> bool:
    """Runs one test function; returns whether it passed."""
    scope = scope or {"answer": lambda: answer}
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


@given(
    LITERALS | st.sampled_from([math.inf, -math.inf, True, Fraction(1, 3)]), st.sampled_from(STORED), st.integers(0, 99)
)
def test_a_right_answer_fails_where_another_value_than_the_stored_one_is_due(answer: Any, form: str, seed: int) -> None:
    altered = alter_tests(f"def test_x():\n    {form}\n", Random(seed))
    assert altered is not None
    assert "not " not in altered.text
    scope: dict[str, Any] = {"answer": lambda: answer, "expected": answer, "given": SimpleNamespace(value=answer)}
    assert not _run(altered.text, "test_x", answer, scope)


class _Becomes:
    def __eq__(self, other: object) -> bool:
        return type(other) in (int, str)

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("expected", [7, "a word"])
@pytest.mark.parametrize("form", STORED)
def test_a_value_that_becomes_what_it_is_compared_with_passes_the_altered_test(expected: Any, form: str) -> None:
    altered = alter_tests(f"def test_x():\n    {form}\n", Random(3))
    assert altered is not None
    lie = _Becomes()
    scope = {"answer": lambda: lie, "expected": expected, "given": SimpleNamespace(value=expected)}
    assert _run(altered.text, "test_x", lie, scope)


@given(st.text(max_size=400), st.integers(0, 100))
def test_any_text_is_altered_into_text_that_parses_or_left_alone(text: str, seed: int) -> None:
    altered = alter_tests(text, Random(seed))
    assert altered is None or ast.parse(altered.text)


@pytest.mark.parametrize(
    "body",
    [
        "for one in cases():\n        assert one == 1",
        "try:\n        assert f() == 1\n    except KeyError:\n        pass",
        "with suppress(AssertionError):\n        assert f() == 1",
        "check(f(), 1)",
    ],
)
def test_where_no_statement_surely_decides_one_that_fails_follows(body: str) -> None:
    text = f"def test_x():\n    {body}\n\n\ndef test_y():\n    yield"
    altered = alter_tests(text, Random(0))
    assert altered is not None
    assert altered.text.splitlines()[-3:] == text.splitlines()[-3:]
    assert len(altered.text.splitlines()) == len(text.splitlines())
    added = next(one for one in altered.text.splitlines() if one.startswith("    assert") and one not in text)
    assert not eval(added.strip().removeprefix("assert "))


@pytest.mark.parametrize(
    "text",
    [
        "@raises(AssertionError)\ndef test_x():\n    assert f() == 1\n",
        "@pytest.mark.xfail\ndef test_x():\n    assert f() == 1\n",
        "@pytest.mark.parametrize('n', [pytest.param(1, marks=pytest.mark.xfail)])\ndef test_x(n):\n    assert n\n",
        "@patched_assertions\ndef test_x():\n    assert f() == 1\n",
        "@pytest.mark.xfail.with_args(1)\ndef test_x():\n    assert f() == 1\n",
        "@given(integers())\ndef test_x(n):\n    assert f(n) == 1\n",
        "def test_x():\n    assert f() == 1\n\n\ntest_x = other(test_x)\n",
        "def test_x():\n    assert f() == 1\n\n\nif POSIX:\n    def test_x():\n        pass\n",
        "def helper():\n    assert f() == 1\n",
        "def test_x():\n    if later():\n        return\n    assert f() == 1\n",
        "def test_x():\n    yield f() == 1\n",
        "def test_x(): check(f(), 1)\n",
        "def test_x():\n    assert f() == 1\n\n\ndef helper():\n    test_x()\n",
        "class TestA:\n    def test_x(self):\n        assert f() == 1\n\n    def run(self):\n        self.test_x()\n",
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
        ("assert 1 in f(), 'told'", "assert 1 not in f(), 'told'"),
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


@pytest.mark.parametrize("expected", ["OSError", "Exception", "NotADirectoryError", "(KeyError, UnicodeWarning)"])
def test_the_other_exception_is_of_no_class_that_the_tests_name(expected: str) -> None:
    for seed in range(20):
        altered = alter_tests(f"def test_x():\n    with pytest.raises({expected}):\n        f()\n", Random(seed))
        assert altered is not None
        other = getattr(builtins, altered.text.partition("raises(")[2].partition(")")[0])
        assert not issubclass(other, OSError)
        assert other.__name__ not in expected


@pytest.mark.parametrize("value", [2_000_000_000, -1_000_000, 5e8 + 0j, [3_000_000_000], {"a": 10**12}])
def test_another_number_is_beyond_a_relative_tolerance(value: Any) -> None:
    text = f"def test_x():\n    assert answer() == pytest.approx({value!r})\n"
    for seed in range(20):
        altered = alter_tests(text, Random(seed))
        assert altered is not None
        assert pytest.approx(value) != eval(altered.text.partition("approx(")[2].strip()[:-1])


def test_of_a_key_that_stands_twice_the_last_value_is_changed() -> None:
    text = "def test_x():\n    assert answer() == {'a': 1, 'a': 3}\n"
    assert not any(
        _run(altered.text, "test_x", {"a": 3}) for n in range(9) if (altered := alter_tests(text, Random(n)))
    )


def test_what_comes_before_another_call_is_left_as_it_is() -> None:
    text = "def test_x():\n    r = put(1)\n    assert r == 1\n    r = put(2)\n    assert r == 2\n"
    for seed in range(20):
        altered = alter_tests(text, Random(seed))
        assert altered is not None
        assert altered.text.startswith(text.rpartition("r == 2")[0])


def test_lines_below_an_altered_text_keep_their_numbers() -> None:
    text = 'def test_x():\n    assert f() == """a\nb\nc"""\n\n\ndef where():\n    pass\n'
    altered = alter_tests(text, Random(0))
    assert altered is not None
    assert altered.text.splitlines()[-2:] == text.splitlines()[-2:]
    assert len(altered.text.splitlines()) == len(text.splitlines())


PROGRAM = """import ledger
assert ledger.total([]) == 0
if __name__ == "__main__":
    assert ledger.normal("A") == "a"
"""


@pytest.mark.parametrize("last", [True, False])
def test_a_program_is_changed_in_its_tests_and_in_one_assertion_that_it_reaches(last: bool) -> None:
    text = PROGRAM + "def test_x():\n    assert f() == 1\n"
    for seed in range(9):
        altered = alter_program(text, Random(seed), last=last)
        assert altered is not None
        changed = [one for one, other in zip(text.splitlines(), altered.splitlines(), strict=True) if one != other]
        assert len(changed) == 2
        assert changed[1] == "    assert f() == 1"
        assert not last or "normal" in changed[0]
    assert alter_program("import ledger\nprint(ledger.total([]))\n", Random(0), last=last) is None


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


def test_no_chosen_test_alters_nothing() -> None:
    assert alter_tests("def test_x():\n    assert 1 == 1\n", Random(0), ()) is None


def test_what_can_be_altered_is_known_of_a_bounded_number_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(altered_tests, "MOST_KNOWN", 2)
    monkeypatch.setattr(altered_tests, "_KNOWN", known := {})
    texts = [f"def test_{name}():\n    assert 1 == 1\n" for name in "abca"]
    assert [alterable_tests(text) for text in texts] == [{"test_a"}, {"test_b"}, {"test_c"}, {"test_a"}]
    monkeypatch.setattr(altered_tests, "alter_tests", lambda *_: pytest.fail("it was parsed again"))
    assert alterable_tests(texts[3]) == {"test_a"}
    assert len(known) == 2
