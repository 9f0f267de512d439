"""Sokoban: push every box onto a goal. Made by pulling boxes away from their goals, so that each can be solved."""

from __future__ import annotations

import math
import random
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from .cells import DIRECTIONS, STEPS
from .interface import Act, Turn
from .rules import Rules, WorldConfig

__all__ = ["Sokoban", "SokobanConfig"]

_MOST_STATES = 120_000
_TRIES = 200
_Place = tuple[int, tuple[int, ...]]
"""The player's cell, and the boxes' in order."""


class SokobanConfig(WorldConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of `sokoban`. `turns` 0: four times the shortest solution, and ten."""

    size: Annotated[int, Meta(ge=3, le=8)] = 5
    """Cells a side, the wall around them not counted."""
    boxes: Annotated[int, Meta(ge=1, le=3)] = 1
    walls: Annotated[int, Meta(ge=0, le=20)] = 2
    """Cells inside that are wall."""
    pulls: Annotated[int, Meta(ge=1, le=60)] = 6
    """Pulls by which it is made from the solved state; more are harder, as far as the room lets them."""


class _Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Move one cell; a box in front of you is pushed."""

    direction: Literal["up", "down", "left", "right"]


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    player: int
    boxes: list[int]


class Sokoban(Rules[SokobanConfig, _Now]):
    """See the module. Cells are numbered row by row, the wall around included."""

    name: ClassVar[str] = "sokoban"
    WorldConfig = SokobanConfig
    Now = _Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"move": _Move}

    def generate(self, draw: random.Random) -> None:
        config = self.config
        self._width = width = config.size + 2
        self._moves = tuple(down * width + right for down, right in STEPS)
        free = config.size**2 - config.walls
        if free < config.boxes + 2 or free * math.comb(free - 1, config.boxes) > _MOST_STATES:
            raise ValueError(
                f"size={config.size}, boxes={config.boxes}, walls={config.walls}: too few cells, or too many states"
            )
        self._plan: dict[_Place, int] = {}
        for _ in range(_TRIES):
            place = self._generate_room(draw)
            if place is not None and (not config.turns or len(self._solve(place) or ()) <= config.turns):
                break
        else:
            raise ValueError(
                f"no room of size {config.size} with {config.walls} walls and {config.boxes} boxes was found"
            )
        self._shortest = len(self._solve(place) or ())
        if not config.solvable:
            place = self._block_box(place, draw)
            self._plan = {}
        self.limit = config.turns or 4 * self._shortest + 10
        self.now = _Now(place[0], list(place[1]))

    def _generate_room(self, draw: random.Random) -> _Place | None:
        """A room, and a place in it that was reached by pulling; None where it came out solved."""
        config, width = self.config, self._width
        inside = [row * width + column for row in range(1, config.size + 1) for column in range(1, config.size + 1)]
        walls = set(draw.sample(inside, config.walls))
        self._floor = frozenset(inside) - walls
        cells = draw.sample(sorted(self._floor), config.boxes + 1)
        player, boxes = cells[0], set(cells[1:])
        self._goals = frozenset(boxes)
        pulls = 0
        for _ in range(60 * config.pulls):
            move = draw.choice(self._moves)
            to = player + move
            if to not in self._floor or to in boxes:
                continue
            if player - move in boxes and draw.random() < 0.7:
                boxes = boxes - {player - move} | {player}
                pulls += 1
            player = to
            if pulls >= config.pulls:
                break
        return None if boxes == self._goals else (player, tuple(sorted(boxes)))

    def _block_box(self, place: _Place, draw: random.Random) -> _Place:
        """The same with a box in a corner that is no goal."""
        player, boxes = place
        up, down, left, right = self._moves
        corners = [
            cell
            for cell in sorted(self._floor - self._goals - set(boxes) - {player})
            if (cell + up not in self._floor or cell + down not in self._floor)
            and (cell + left not in self._floor or cell + right not in self._floor)
        ]
        if not corners:
            raise ValueError("this room has no free corner: take another seed, or more cells")
        return player, tuple(sorted((draw.choice(corners), *boxes[1:])))

    def brief(self) -> str:
        return f"Push every box onto a goal, in at most {self.limit} moves."

    def render(self) -> str:
        return "\n".join(
            "".join(self._draw_cell(row * self._width + column) for column in range(self._width))
            for row in range(self._width)
        )

    def _draw_cell(self, cell: int) -> str:
        """As Sokoban is usually drawn."""
        if cell not in self._floor:
            return "#"
        goal = cell in self._goals
        if cell in self.now.boxes:
            return "*" if goal else "$"
        if cell == self.now.player:
            return "+" if goal else "@"
        return "." if goal else " "

    def do_move(self, given: _Move) -> Turn:
        """One cell, with the box that is there."""
        now, move = self.now, self._moves[DIRECTIONS.index(given.direction)]
        there = _move_player((now.player, tuple(now.boxes)), move, self._floor)
        if there is None:
            return Turn(f"blocked\n{self.render()}")
        now.player, now.boxes = there[0], list(there[1])
        if self.solved():
            return Turn(f"solved\n{self.render()}", 1.0, True)
        return Turn(self.render())

    def constants(self) -> Any:
        return [sorted(self._floor), sorted(self._goals)]

    def check(self, now: _Now) -> None:
        cells = {now.player, *now.boxes}
        whole = len(now.boxes) == self.config.boxes and len(cells) == len(now.boxes) + 1 and cells <= self._floor
        if not whole or now.boxes != sorted(now.boxes):
            raise ValueError(f"player {now.player} and boxes {now.boxes} are no places of this room")

    def solved(self) -> bool:
        return self._goals.issuperset(self.now.boxes)

    def extra_facts(self) -> dict[str, Any]:
        return {"on_goals": sum(box in self._goals for box in self.now.boxes), "shortest": self._shortest}

    def oracle(self) -> Act | None:
        """See `TextWorld.oracle`: a search for the fewest moves, remembered along its way."""
        if self.over:
            return None
        place = self.now.player, tuple(self.now.boxes)
        if place not in self._plan and self._solve(place) is None:
            return None
        return "move", {"direction": DIRECTIONS[self._plan[place]]}

    def _solve(self, place: _Place) -> list[int] | None:
        """The fewest moves from a place; None where there are none."""
        came: dict[_Place, tuple[_Place, int] | None] = {place: None}
        edge, found = [place], place if self._goals.issuperset(place[1]) else None
        while edge and found is None:
            further = []
            for one in edge:
                for number, move in enumerate(self._moves):
                    to = _move_player(one, move, self._floor)
                    if to is not None and to not in came:
                        came[to] = (one, number)
                        further.append(to)
                        if found is None and self._goals.issuperset(to[1]):
                            found = to
            edge = further
        if found is None:
            return None
        moves = []
        while (before := came[found]) is not None:
            found = before[0]
            self._plan[found] = before[1]
            moves.append(before[1])
        return moves[::-1]

    def progress(self) -> float | None:
        """See `TextWorld.progress`: the share of boxes on goals."""
        return sum(box in self._goals for box in self.now.boxes) / self.config.boxes

    def choices(self) -> list[Act]:
        return [] if self.over else [("move", {"direction": direction}) for direction in DIRECTIONS]


def _move_player(place: _Place, move: int, floor: frozenset[int]) -> _Place | None:
    """Where a move leads; None where it is blocked."""
    player, boxes = place
    to = player + move
    if to not in floor:
        return None
    if to not in boxes:
        return to, boxes
    beyond = to + move
    if beyond not in floor or beyond in boxes:
        return None
    return to, tuple(sorted(beyond if box == to else box for box in boxes))
