"""Key frames: screens stay where lines of the tree change, by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from assay.learning.keyframes import StoredScreen, choose_keyframes, tree_change

HALL = "\n".join(f'  [{at}] link "Room {at}"' for at in range(40))
TREES = {
    "hall": HALL,
    "renumbered": HALL.replace("[1", "[7"),
    "filled": HALL.replace('"Room 3"', '"Room 3" value="x"'),
    "twice": HALL.replace('"Room 3"', '"Room 3" value="x"').replace('"Room 5"', '"Room 5" value="y"'),
    "porter": 'main\n  heading "Porter" level 1',
    "empty": "",
}


def chosen(*trees: str) -> list[tuple[int, float]]:
    screens = [StoredScreen(at, "click", "t", "u", f"blake3:{at}", tree) for at, tree in enumerate(trees)]
    return [(frame.screen.step, round(frame.change, 3)) for frame in choose_keyframes(screens, TREES.__getitem__)]


def test_pages_are_kept_and_what_is_alike_is_not() -> None:
    assert chosen("hall", "hall", "renumbered", "porter", "hall") == [(0, 1.0), (3, 1.0), (4, 1.0)]
    assert chosen() == []
    assert chosen("empty", "empty") == [(0, 0.0)]


def test_small_changes_add_up_until_one_is_kept_and_the_last_one_counts() -> None:
    assert chosen("hall", "filled", "filled", "porter") == [(0, 1.0), (3, 1.0)]  # of 80 lines, 1 went and 1 came
    assert chosen("hall", "filled", "twice", "porter") == [(0, 1.0), (2, 0.05), (3, 1.0)]
    assert chosen("hall", "porter", "hall", "filled") == [(0, 1.0), (1, 1.0), (2, 1.0), (3, 0.025)]


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [("aab", "aac", 2 / 6), ("", "ab", 1), ("", "", 0), ("ab", "ba", 0), ("aa", "a", 1 / 3)],
)
def test_the_change_is_the_share_of_lines_that_one_tree_alone_has(before: str, after: str, share: float) -> None:
    assert tree_change(Counter(before), Counter(after)) == pytest.approx(share)
