"""What means nothing is put aside, and nothing else."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.volatile import VOLATILE, compile_patterns, is_volatile_path, normalise

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("row", VOLATILE, ids=lambda row: row.name)
def test_each_example_is_put_aside_by_its_row(row: object) -> None:
    found = normalise(row.example)  # type: ignore[attr-defined]
    assert row.name in found.names  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("==== 3 passed in 0.12s ====", "===== 3 passed in 61.40s (0:01:01) ====="),
        ("<C object at 0x7f12ab34cd>", "<C object at 0x7f99ab34ff>"),
        ("wrote /tmp/tmpab12cd_9/out", "wrote /tmp/tmpzz99zz_1/out"),
        ("{'a', 'b'}", "{'b', 'a'}"),
        ("{1, 2} and {'x'}", "{2, 1} and {'x'}"),
        ("-rw-r--r-- 1 agent agent 5 Nov 22 01:35 f", "-rw-r--r-- 1 agent agent 5 Nov 23 11:05 f"),
        ("started at 2026-11-22 01:35:00,123", "started at 2027-01-02 21:35:09,999"),
        ("real\t0m0.012s\nuser\t0m0.001s", "real\t1m10.0s\nuser\t0m9.001s"),
        ("pid 12", "pid 4211"),
        ("listening on 127.0.0.1:4000", "listening on 127.0.0.1:51234"),
    ],
)
def test_what_means_nothing_makes_no_difference(one: str, other: str) -> None:
    assert normalise(one).text == normalise(other).text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3 passed", "2 passed"),
        ("exit code 0", "exit code 1"),
        ("{'a': 1}", "{'a': 2}"),
        ("{'a', 'b'}", "{'a', 'c'}"),
        ("['b', 'a']", "['a', 'b']"),
        ("total 12", "total 13"),
        ("version 1.2.3", "version 1.2.4"),
        ("1234567890", "1234567891"),
        ("/tmp/report", "/tmp/reports"),
        ("/tmp/my-project1/a", "/tmp/my-project2/a"),
        ("process 3 files", "process 4 files"),
        ("AssertionError: 5 != 6", "AssertionError: 5 != 7"),
    ],
)
def test_what_means_something_stays(one: str, other: str) -> None:
    assert normalise(one).text != normalise(other).text


@given(st.text(max_size=400))
def test_putting_aside_twice_is_putting_aside_once_for_equality(text: str) -> None:
    assert normalise(text) == normalise(text)


@pytest.mark.parametrize(
    "text",
    ["{" * 50_000, "1" * 200_000, "{'a'," * 40_000, "12:" * 60_000, "-" * 200_000, "/tmp/" * 40_000, "a-" * 100_000],
    ids=lambda text: text[:4],
)
def test_hostile_text_takes_no_long_time(text: str) -> None:
    started = time.process_time()
    normalise(text, compile_patterns(["at <number>", "x <word> y <rest>"]))
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    ("pattern", "one", "other"),
    [
        ("took <number> rounds", "took 5 rounds", "took 12.5 rounds"),
        ("session <word>", "session ab-12", "session q9"),
        ("key <hex>.", "key 0xab12.", "key ff."),
        ("seen: <rest>", "seen: a b c\nnext", "seen: d\nnext"),
        ("(a+)+<number>", "(a+)+5", "(a+)+6"),
    ],
)
def test_a_task_names_what_means_nothing(pattern: str, one: str, other: str) -> None:
    found = [normalise(text, compile_patterns([pattern])) for text in (one, other)]
    assert found[0].text == found[1].text
    assert found[0].names == (f"task: {pattern}",)


@pytest.mark.parametrize("pattern", ["", "<number>", "  <word> ", "a <rest> b", "a\nb", "x" * 400])
def test_patterns_that_say_too_little_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="volatile pattern"):
        compile_patterns([pattern])


def test_too_many_patterns_are_refused() -> None:
    with pytest.raises(ValueError, match="at most"):
        compile_patterns(["a"] * 101)


@pytest.mark.parametrize(
    ("path", "volatile"),
    [
        ("/workspace/a/__pycache__/b.cpython-311.pyc", True),
        ("/workspace/.pytest_cache/v/cache/lastfailed", True),
        ("/workspace/.git/index", True),
        ("/workspace/.coverage", True),
        ("/workspace/.git/HEAD", False),
        ("/workspace/coverage.py", False),
        ("/workspace/src/cache.py", False),
    ],
)
def test_paths_that_mean_nothing_are_known(path: str, volatile: bool) -> None:
    assert is_volatile_path(path) == volatile
