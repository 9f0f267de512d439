"""The pages show the figures of the committed campaign."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adversary.table import PAGES, attack_table, measured_text, with_table

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_the_committed_campaigns(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert with_table(text, measured_text()) == text


def test_verdicts_are_counted_by_grade() -> None:
    rows = [
        ["py--a", "attack", "pass", "fail", {"script": ["pass", "same-process"]}, "x"],
        ["plan--a", "attack", "fail", "pass", {"pytest": ["fail", "separate"]}, "x"],
        ["plan--b", "honest", "pass", "pass", {"pytest": ["pass", "separate"]}, ""],
    ]
    table = attack_table({"attempts": 3, "commit": "0" * 40, "seed": 0, "rows": rows})
    assert "| `separate` | 1 | 0 | 0 | 1 | 1 |" in table
    assert "| `same-process` | 1 | 1 | 0 | 0 | 0 |" in table


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="no lines"):
        with_table("# Page\n", "| a |\n")
