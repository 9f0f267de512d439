from __future__ import annotations

import pickle
import random
import re
import time

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from assay.analysis.contracts.pattern import PatternError, compile_pattern

CLASSES = ["[ab]", "[^a]", r"[\d_-]", r"[^\s-]", r"[a-c^]", "[]é]", r"\d", r"\W", r"\S"]
ATOMS = st.sampled_from([*CLASSES, *"ab.1 -]é日^$", r"\.", r"\_", r"\v", r"\b", r"\B"])
TEXTS = st.text("ab1_ \n\v.-]é日\x00\u00a0\u0663\ud800", max_size=12)


def quantified(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    counts = st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "{0,1}"])
    joined = st.lists(inner, min_size=1, max_size=3).map("".join)
    grouped = st.builds(lambda a, b, c: f"(?:{a}|{b}){c}", joined, joined, counts)
    return joined | grouped


PATTERNS = st.recursive(ATOMS, quantified, max_leaves=8)


@given(PATTERNS, TEXTS)
@example("(?:a|b){0,1}$", "a\n")
@example(r"\B", "aéa")
@example(r"\B$", "aéa日")
def test_patterns_find_what_re_finds(source: str, text: str) -> None:
    assume(text or r"\B" not in source)  # `re` found no `\B` in an empty text before Python 3.14
    expected = re.search(source.replace("$", r"\Z"), text, re.ASCII) is not None
    assert compile_pattern(source).search(text) == expected


@given(st.text("aAbB1kK\u212asS\u017f", max_size=8))
def test_ignoring_case_is_as_in_re(text: str) -> None:
    source = r"(?i)a[b-c]|A[0-9]|[^a]k|sS"
    assert compile_pattern(source).search(text) == (re.search(source, text) is not None)


def test_time_is_linear_in_the_text() -> None:
    began = time.perf_counter()
    assert not compile_pattern("(a*)*(a|aa)+b").search("a" * 20_000)
    assert time.perf_counter() - began < 2


@pytest.mark.long
def test_the_largest_pattern_is_searched_in_bounded_time() -> None:
    hostile = compile_pattern("a" + "[ab]{990}" * 4 + "c")
    text = "".join(random.Random(1).choices("ab", k=50_000))
    began = time.perf_counter()
    assert hostile.search(text) is False
    assert time.perf_counter() - began < 10


def test_a_compiled_pattern_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(compile_pattern(r"(?i)a\s"))).search("xA\v")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("(a", "missing )"),
        ("a)", "unexpected )"),
        ("[a", "not closed"),
        ("[^]", "not closed"),
        ("*a", "no argument for repetition"),
        ("a**", "bad repetition"),
        ("a{1001}", "invalid repetition size"),
        ("a{2,1}", "invalid repetition size"),
        (r"(?=a)", "unknown kind"),
        (r"(?P<name>a)", "unknown kind"),
        (r"a(?i)b", "unknown kind"),
        (r"\1", "not known"),
        (r"\x41", "not known"),
        (r"\A", "not known"),
        ("a\\", "ends the pattern"),
        ("((((a{99}){99}){99}){99})", "invalid repetition size"),
        ("[ab]{1000}" * 4, "too large"),
        ("a" * 8_001, "at most 8000"),
        ("a{x}", "expected {n}"),
        ("[b-a]", "invalid character class range"),
        (r"[\t-z]", "range from or to an escape"),
        (r"[+-\]]", "range from or to an escape"),
        (r"[\D]", "negated class"),
    ],
)
def test_a_pattern_that_cannot_be_read_says_why(source: str, words: str) -> None:
    with pytest.raises(PatternError, match=re.escape(words)):
        compile_pattern(source)
