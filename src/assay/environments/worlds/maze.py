"""Perfect maze: exactly one path leads to the goal, with the requested length and number of bends."""

from __future__ import annotations

import random
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Meta

from .cells import DIRECTIONS, STEPS, Moves, block_goal, distances
from .interface import Act, Turn
from .rules import Rules, WorldConfig

_TRIES = 300


class MazeConfig(WorldConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of `maze`. `turns` 0 means twice the path length with the map, otherwise four times the rooms."""

    size: Annotated[int, Meta(ge=2, le=30)] = 4
    """Rooms per side."""
    length: Annotated[int, Meta(ge=0, le=900)] = 0
    """Exact number of moves to the goal; 0 for any from 2 on."""
    bends: Annotated[int, Meta(ge=-1, le=900)] = -1
    """Exact number of direction changes of the path; -1 for any."""
    view: Literal["local", "map"] = "local"
    """Observation: open directions alone, or the whole maze as well."""


class _Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Move to the next room."""

    direction: Literal["up", "down", "left", "right"]


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    cell: int


class _Route(NamedTuple):
    goal: int
    length: int
    bends: int


class Maze(Rules[MazeConfig, _Now]):
    """Maze world."""

    name: ClassVar[str] = "maze"
    WorldConfig = MazeConfig
    Now = _Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"move": _Move}

    def generate(self, draw: random.Random) -> None:
        config = self.config
        for _ in range(_TRIES):
            ways = _carve_maze(config.size, draw)
            start = draw.randrange(config.size**2)
            found = [way for way in _routes_from(ways, start) if self._fits(way)]
            if found:
                break
        else:
            raise ValueError(
                f"no maze of size {config.size} with length={config.length}, bends={config.bends} and "
                f"turns={config.turns} was found in {_TRIES} tries: try a larger maze, a shorter path or other bends"
            )
        self._route = way = draw.choice(found)
        self._ways = ways if config.solvable else block_goal(ways, way.goal)
        self._away = distances(ways, way.goal)
        self.limit = config.turns or (2 * way.length if config.view == "map" else 4 * config.size**2)
        self.now = _Now(start)

    def _fits(self, way: _Route) -> bool:
        config = self.config
        within = not config.turns or way.length <= config.turns
        long = way.length == config.length if config.length else way.length >= 2
        return within and long and config.bends in (-1, way.bends)

    def brief(self) -> str:
        size = self.config.size
        return f"Find the goal in a maze of {size} by {size} rooms, in at most {self.limit} moves."

    def render(self) -> str:
        size, cell = self.config.size, self.now.cell
        if self.solved():
            return "you are at the goal"
        row, column = divmod(cell, size)
        to_row, to_column = divmod(self._route.goal, size)
        free = [name for name, to in zip(DIRECTIONS, self._ways[cell], strict=True) if to != cell]
        seen = f"you r{row}c{column} goal r{to_row}c{to_column} open {' '.join(free)}"
        return f"{self._map()}\n{seen}" if self.config.view == "map" else seen

    def _map(self) -> str:
        size = self.config.size
        width = 2 * size + 1
        rows = [["#"] * width for _ in range(width)]
        for cell, ways in enumerate(self._ways):
            row, column = divmod(cell, size)
            rows[2 * row + 1][2 * column + 1] = (
                "Y" if cell == self.now.cell else "G" if cell == self._route.goal else "."
            )
            for (down, right), to in zip(STEPS, ways, strict=True):
                if to != cell:
                    rows[2 * row + 1 + down][2 * column + 1 + right] = "."
        return "\n".join("".join(row) for row in rows)

    def do_move(self, given: _Move) -> Turn:
        before = self.now.cell
        self.now.cell = self._ways[before][DIRECTIONS.index(given.direction)]
        if self.solved():
            return Turn(self.render(), 1.0, True)
        return Turn(self.render() if self.now.cell != before else f"blocked {self.render()}")

    def constants(self) -> Any:
        return [self._route.goal, self._ways]

    def check(self, now: _Now) -> None:
        if not 0 <= now.cell < self.config.size**2:
            raise ValueError(f"room {now.cell} is outside a maze of size {self.config.size}")

    def solved(self) -> bool:
        return self.now.cell == self._route.goal

    def extra_facts(self) -> dict[str, Any]:
        return {"cell": self.now.cell, "shortest": self._route.length, "bends": self._route.bends}

    def oracle(self) -> Act | None:
        if self.over or not self.config.solvable:
            return None
        near = self._ways[self.now.cell]
        return "move", {"direction": DIRECTIONS[min(range(4), key=lambda direction: self._away[near[direction]])]}

    def progress(self) -> float | None:
        return max(0.0, 1 - self._away[self.now.cell] / self._route.length) if self.config.solvable else None

    def choices(self) -> list[Act]:
        return [] if self.over else [("move", {"direction": direction}) for direction in DIRECTIONS]


def _carve_maze(size: int, draw: random.Random) -> Moves:
    """Carves a perfect maze by random depth-first search."""
    open_to = [[cell] * 4 for cell in range(size * size)]
    path, known = [draw.randrange(size * size)], set[int]()
    known.add(path[0])
    while path:
        cell = path[-1]
        row, column = divmod(cell, size)
        free = [
            (number, cell + down * size + right)
            for number, (down, right) in enumerate(STEPS)
            if 0 <= row + down < size and 0 <= column + right < size and cell + down * size + right not in known
        ]
        if not free:
            path.pop()
            continue
        number, to = draw.choice(free)
        open_to[cell][number], open_to[to][number ^ 1] = to, cell
        known.add(to)
        path.append(to)
    return tuple((up, down, left, right) for up, down, left, right in open_to)


def _routes_from(ways: Moves, start: int) -> list[_Route]:
    """Returns the path to every other room: its length and number of bends."""
    found, edge = list[_Route](), [(start, -1, 0, 0)]
    known = {start}
    while edge:
        cell, came, length, bends = edge.pop()
        if length:
            found.append(_Route(cell, length, bends))
        for number, to in enumerate(ways[cell]):
            if to not in known:
                known.add(to)
                edge.append((to, number, length + 1, bends + (came not in (-1, number))))
    return found
