"""Seeded samples of long campaigns: the suite runs a sample of each, `make campaign` all of it."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["WHOLE", "draw_sample"]

WHOLE = os.environ.get("ASSAY_WHOLE_CAMPAIGNS") == "1"
SEED = 7
Item = TypeVar("Item")


def draw_sample(items: Sequence[Item], count: int) -> list[Item]:
    """Returns some of the items in their order, always the same ones; all of them in a campaign."""
    if WHOLE or count >= len(items):
        return list(items)
    chosen = set(random.Random(SEED).sample(range(len(items)), count))
    return [item for index, item in enumerate(items) if index in chosen]
