"""Comparisons of a test that call the same functions on both sides."""

from __future__ import annotations

import pytest

from assay.synthesis._comparisons import compares_calls


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("assert area(2, 3) == area(3, 2)", True),
        ("assert shapes.area(2, 3) == shapes.edge(3)", True),
        ("assert area(2, 3) == 6", False),
        ("assert 6 == area(2, 3)", False),
        ("assert other(2) == area(2)", False),
        ("area(2)\nassert area(2, 3) == area(3, 2)", False),
    ],
)
def test_both_sides_of_a_comparison(text: str, expected: bool) -> None:
    assert compares_calls(text, {"area", "edge"}, {1}) is expected


def test_a_comparison_over_several_lines_is_one() -> None:
    assert compares_calls("assert area(\n    2\n) == area(\n    3\n)", {"area"}, {4})


def test_a_text_that_cannot_be_read_counts_as_comparing() -> None:
    assert compares_calls("def (", {"area"}, {1})
