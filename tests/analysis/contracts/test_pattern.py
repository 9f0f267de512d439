from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.analysis.contracts.pattern import PatternError, compile_pattern

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\W", r"\b", "^", "$", "1", " "])


def quantified(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    counts = st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "{0,1}"])
    joined = st.lists(inner, min_size=1, max_size=3).map("".join)
    grouped = st.builds(lambda a, b, c: f"(?:{a}|{b}){c}", joined, joined, counts)
    return joined | grouped


PATTERNS = st.recursive(ATOMS, quantified, max_leaves=8)


@given(PATTERNS, st.text("ab1 \n-", max_size=12))
@example("(?:a|b){0,1}$", "a\n")
def test_patterns_find_what_re_finds(source: str, text: str) -> None:
    expected = re.search(source.replace("$", r"\Z"), text) is not None
    assert compile_pattern(source).search(text) == expected


@given(st.text("aAbB1", max_size=8))
def test_ignoring_case_is_as_in_re(text: str) -> None:
    source = r"(?i)a[b-c]|A\d"
    assert compile_pattern(source).search(text) == (re.search(source, text) is not None)


def test_time_is_linear_in_the_text() -> None:
    began = time.perf_counter()
    assert not compile_pattern("(a*)*(a|aa)+b").search("a" * 20_000)
    assert time.perf_counter() - began < 2


def test_a_search_that_takes_too_long_is_given_up() -> None:
    hostile = compile_pattern("a(a|b){90}c")
    text = "".join(random.Random(1).choices("ab", k=100_000))
    began = time.perf_counter()
    assert hostile.search(text) is None
    assert time.perf_counter() - began < 10


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("(a", "not closed"),
        ("a)", "nothing is open"),
        ("[a", "not closed"),
        ("*a", "nothing to repeat"),
        ("a**", "two repetitions"),
        ("a{101}", "at most 100"),
        (r"(?=a)", "kind that is not known"),
        (r"\1", "not known"),
        ("((((a{99}){99}){99}){99})", "too large"),
        ("(" * 60 + ")" * 60, "nested"),
        ("a{x}", "expected {n}"),
    ],
)
def test_a_pattern_that_cannot_be_read_says_why(source: str, words: str) -> None:
    with pytest.raises(PatternError, match=re.escape(words)):
        compile_pattern(source)
