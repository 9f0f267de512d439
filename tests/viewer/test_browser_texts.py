"""Terminal output and differences of texts, in a real Chromium."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from assay.analysis.alignment import common_length, equal_rows

if TYPE_CHECKING:
    from tests.viewer.conftest import Look

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
pytestmark = pytest.mark.slow

ROWS = """(pairs) => pairs.map(([one, other]) => {
  const made = Assay.diff(one, other);
  const told = (row) => [row.className.replace("ln diff-", ""), row.lastChild.textContent];
  return [...made.querySelectorAll(".ln")].map(told);
})"""
SHOWN = """(texts) => texts.map((text) => {
  const box = document.createElement("div");
  box.append(Assay.ansi(text));
  return { text: box.textContent, classes: [...box.querySelectorAll("[class]")].map((part) => part.className),
    active: box.querySelectorAll("a, script, img, [style]").length };
})"""


def test_a_difference_is_the_shortest_and_holds_both_texts(look: Look) -> None:
    chance = random.Random(5)
    texts = ["".join(chance.choices("abcd", k=chance.randrange(1, 6))) for _ in range(400)]
    pairs = [(list(one), list(other)) for one, other in zip(texts[::2], texts[1::2], strict=True) if one != other]
    found = look.go("").evaluate(ROWS, [("\n".join(one), "\n".join(other)) for one, other in pairs])
    for (one, other), rows in zip(pairs, found, strict=True):
        kept = [row for row in rows if row[0] == "same"]
        assert [text for kind, text in rows if kind != "added"] == one
        assert [text for kind, text in rows if kind != "removed"] == other
        assert len(kept) == common_length(equal_rows(one, other))


def ansi(look: Look, text: str) -> Any:
    return look.go("").evaluate(SHOWN, [text])[0]


def test_a_terminal_s_colours_are_shown_and_its_commands_are_marks(look: Look) -> None:
    shown = ansi(look, "\x1b[1;31mred\x1b[0m \x1b[38;5;46mgreen\x1b[m \x1b[8mhidden\x1b[2J\x1b]0;title\x07 end\x1b")
    assert shown["text"] == "red green hiddenCSI 2JOSC 0;title endESC"
    assert shown["classes"][:2] == ["ansi-bold ansi-1", "ansi-2"]


def test_a_terminal_s_link_is_text(look: Look) -> None:
    shown = ansi(look, "\x1b]8;;javascript:alert(1)\x1b\\<b>here</b>\x1b]8;;\x1b\\")
    assert shown["text"] == "link: javascript:alert(1)<b>here</b>"
    assert shown["active"] == 0
