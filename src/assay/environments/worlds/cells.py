"""Worlds of square cells, numbered row by row: blocked moves and distances."""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

DIRECTIONS = ("up", "down", "left", "right")
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
Moves: TypeAlias = tuple[tuple[int, int, int, int], ...]
"""Per cell, the target cell of each direction; the cell itself if blocked."""


def moves_between(size: int, walls: frozenset[int]) -> Moves:
    """Returns the moves of a `size` by `size` square with walls."""

    def to(cell: int, target: int, *, inside: bool) -> int:
        return target if inside and target not in walls else cell

    return tuple(
        (
            to(cell, cell - size, inside=cell >= size),
            to(cell, cell + size, inside=cell < size * (size - 1)),
            to(cell, cell - 1, inside=cell % size > 0),
            to(cell, cell + 1, inside=cell % size < size - 1),
        )
        for cell in range(size * size)
    )


@cache
def open_moves(size: int) -> Moves:
    """Returns the moves of a square without walls."""
    return moves_between(size, frozenset())


def block_goal(ways: Moves, goal: int) -> Moves:
    """Returns the moves without any that leads to the goal."""

    def led(cell: int, four: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
        up, down, left, right = (cell if to == goal else to for to in four)
        return up, down, left, right

    return tuple(led(cell, four) for cell, four in enumerate(ways))


def distances(ways: Moves, goal: int) -> tuple[int, ...]:
    """Returns the number of moves from each cell to the goal, -1 if unreachable. Moves must be reversible."""
    away = [-1] * len(ways)
    away[goal], edge = 0, [goal]
    while edge:
        further = []
        for cell in edge:
            for near in ways[cell]:
                if away[near] < 0:
                    away[near] = away[cell] + 1
                    further.append(near)
        edge = further
    return tuple(away)


@cache
def open_distances(size: int, goal: int) -> tuple[int, ...]:
    """Returns the distances of a square without walls."""
    return distances(open_moves(size), goal)
