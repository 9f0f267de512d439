"""Chooses the way out of a place."""

import random


class Policy:
    """Takes any open way."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    def choose(self, place: str, ways: list[str]) -> str:
        """Returns one of the open ways of a place."""
        return self._draw.choice(ways)
