"""Every family of worlds, with knobs that make small ones."""

from __future__ import annotations

import random
from typing import Any

from assay.environments.worlds.interface import Act, TextWorld, Turn
from assay.environments.worlds.opening import text_world, world_kind

WORLDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("grid", {"walls": 3}),
    ("grid", {"observation": "coords", "shortcut": True}),
    ("maze", {}),
    ("maze", {"view": "map", "length": 4}),
    ("key-value", {"writes": 2}),
    ("tables", {"tables": 3}),
    ("subset-sum", {}),
    ("graph-path", {"hidden": True}),
    ("constraints", {"variables": 3, "values": 3}),
    ("sokoban", {"boxes": 2, "size": 4}),
    ("adventure", {"locks": 2}),
)
NAMES = [f"{kind}-{number}" for number, (kind, _) in enumerate(WORLDS)]


def made(which: tuple[str, dict[str, Any]], seed: int, **more: Any) -> Any:
    """A world of the kind, which has `choices` as well."""
    return text_world(world_kind(which[0]), {**which[1], **more}, seed)


def wander(world: Any, draw: random.Random, most: int = 12) -> list[tuple[Act, Turn]]:
    """Random acts, good and bad, until the world is over."""
    done: list[tuple[Act, Turn]] = []
    for _ in range(draw.randrange(most)):
        choices = world.choices()
        act = draw.choice(choices) if choices and draw.random() < 0.9 else ("nonsense", {"x": draw.random()})
        done.append((act, world.act(*act)))
    return done


def seen(world: TextWorld) -> tuple[bytes, str, dict[str, Any], float | None]:
    """All that a world tells of where it is."""
    return world.snapshot(), world.state(), world.facts(), world.progress()
