"""Key frames of an attempt in a browser: its stored screens, less those on which little changed.

A screen is kept if the share of the lines of its accessibility tree that came or went since the last one that was kept
is at least `LEAST_CHANGE`; the first and the last screen always are. Numbers of elements do not count. Where the tree
is the same, the picture decides nothing: no pixels are decoded, and a moved focus or scrolling is no change here. After
ExeVRM's spatiotemporal pruning; on trees, which are exact, in place of pixels.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from assay.records import Evidence, Trajectory

SCREEN: Final = "screen"
LEAST_CHANGE: Final = 0.05
"""Share of changed lines: one field that is filled in, on a page of more than 20 lines, is below it."""
_NUMBER: Final = re.compile(r"\[\d+\] ")


class StoredScreen(NamedTuple):
    """A screen of an attempt."""

    step: int
    """Index of the step whose act led to it."""
    act: str
    title: str
    url: str
    image: str
    """Digest of its picture."""
    tree: str
    """Digest of its tree."""


class Keyframe(NamedTuple):
    """A screen that is kept."""

    screen: StoredScreen
    change: float
    """Share of lines that differ from the screen that was kept before; 1 for the first."""


def stored_screens(trajectory: Trajectory) -> Iterator[StoredScreen]:
    """Yields the screens of an attempt that have a picture, in order. A screen belongs to the step under way when it
    was stored; a digest counts if the evidence lists it among its blobs."""
    steps = [step for step in trajectory.steps if step.actor == "agent" and step.ended is not None]
    ends = [step.ended or 0.0 for step in steps]
    for item in trajectory.evidence:
        if item.kind != SCREEN or item.at is None:
            continue
        at = bisect_left(ends, item.at)
        image, tree = (_listed(item, name) for name in ("image", "tree"))
        if at < len(steps) and image is not None and tree is not None:
            act, title, url = (str(item.data.get(name, ""))[:2_000] for name in ("act", "title", "url"))
            yield StoredScreen(steps[at].index, act, title, url, image, tree)


def _listed(item: Evidence, name: str) -> str | None:
    digest = item.data.get(name)
    return digest if isinstance(digest, str) and digest in item.blobs else None


def choose_keyframes(screens: Iterable[StoredScreen], read_tree: Callable[[str], str]) -> list[Keyframe]:
    """Returns the screens on which something changed, in order.

    Args:
        screens: Screens in order.
        read_tree: Returns the text of a tree by its digest.
    """
    kept: list[Keyframe] = []
    lines: Counter[str] = Counter()
    last: Keyframe | None = None
    for screen in screens:
        found = Counter(_NUMBER.sub("", line) for line in read_tree(screen.tree).splitlines())
        frame = Keyframe(screen, tree_change(lines, found))
        last = None
        if not kept or frame.change >= LEAST_CHANGE:
            kept.append(frame)
            lines = found
        elif frame.change:
            last = frame
    return kept if last is None else [*kept, last]


def tree_change(before: Counter[str], after: Counter[str]) -> float:
    """Returns the share of lines of two trees that only one of them has, in [0, 1]; 0 for two empty ones."""
    size = before.total() + after.total()
    return ((before - after).total() + (after - before).total()) / size if size else 0.0
