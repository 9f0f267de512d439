"""Which lines a commit changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.synthesis import _parts
from assay.synthesis._history import _changed_lines

pytestmark = pytest.mark.quick
LINES = st.lists(st.sampled_from("abc"), max_size=12)


@pytest.mark.parametrize(
    ("right", "broken", "lines"),
    [("abc", "axc", [2]), ("abc", "ac", [2]), ("ac", "abc", [2]), ("abcd", "xbcy", [1, 4]), ("abc", "abc", [])],
)
def test_changed_lines_are_those_of_the_right_text(right: str, broken: str, lines: list[int]) -> None:
    assert list(_changed_lines("\n".join(right), "\n".join(broken))) == lines


@given(LINES, LINES)
def test_changed_lines_hold_every_difference(right: list[str], broken: list[str]) -> None:
    found = set(_changed_lines("\n".join(right), "\n".join(broken)))
    left = [line for n, line in enumerate(right, 1) if n not in found]
    rest = iter(broken)
    assert all(line in rest for line in left)
    assert bool(found) == (right != broken)


def test_texts_that_are_too_long_to_compare_are_changed_throughout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parts, "MOST_COMPARED", 3)
    assert list(_changed_lines("a\nx\nb\ny\nc", "a\nz\nb\nw\nc")) == [2, 3, 4]
