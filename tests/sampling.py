"""Seeded samples of long campaigns and long tests: the suite runs a sample of each, `make campaign` all of them."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import pytest

__all__ = ["SHARE", "WHOLE", "draw_long_tests", "draw_sample"]

WHOLE = os.environ.get("ASSAY_WHOLE_CAMPAIGNS") == "1"
SEED = 7
SHARE = 10
"""One of so many long tests runs in a sample."""
Item = TypeVar("Item")


def draw_sample(items: Sequence[Item], count: int) -> list[Item]:
    """Returns some of the items in their order, always the same ones; all of them in a campaign."""
    if WHOLE or count >= len(items):
        return list(items)
    chosen = set(random.Random(SEED).sample(range(len(items)), count))
    return [item for index, item in enumerate(items) if index in chosen]


def draw_long_tests(items: Sequence[pytest.Item], seed: str) -> set[pytest.Item]:
    """Returns the long tests of a sample: a tenth of those of each package. A file that is marked as a whole, because
    its tests share what takes long to make, is drawn as a whole."""
    units: dict[str, dict[str, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        marked = [node for node, _ in item.iter_markers_with_node("long")]
        if marked:
            unit = item.nodeid if marked[-1] is item else marked[-1].nodeid
            units[item.nodeid.split("/")[1]][unit].append(item)
    drawn = set()
    for package, found in units.items():
        rng = random.Random(f"{seed} {package}")
        count = (len(found) + rng.randrange(SHARE)) // SHARE
        for unit in rng.sample(sorted(found), count):
            drawn.update(found[unit])
    return drawn
