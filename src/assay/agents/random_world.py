"""Agent that makes random possible acts in a text world: the reward of a random policy."""

from __future__ import annotations

import random
from typing import Annotated, Any

import msgspec

from ._options import read_options
from .expert import require_drawer
from .interface import Attempt


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    steps: Annotated[int, msgspec.Meta(ge=0)] = 100
    """Maximum number of acts; the limits of world and run also apply."""


class RandomWorldAgent:
    """Makes `steps` random calls, deterministic in the seed. Option: `steps`."""

    name = "random-world"
    needs_model = False

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_Options, options, self.name)

    async def run(self, attempt: Attempt) -> None:
        """Raises `TaskError` if the environment is not a text world."""
        world, draw = require_drawer(attempt, self.name), random.Random(attempt.seed)
        for _ in range(self._options.steps):
            call = world.any_act(draw)
            if call is None:
                break
            await attempt.act([call])
            if attempt.ended is not None:
                return
        attempt.finish("did what came to mind")
