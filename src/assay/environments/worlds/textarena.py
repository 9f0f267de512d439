"""Single-player games of TextArena as text worlds: one tool takes the player's text.

Needs the extra `assay[textarena]`. A snapshot is the seed and the moves; restoring replays them. The games use Python's
global random state; each world swaps in its own, so that games do not disturb each other. Only the games in `GAMES` are
supported: they have one player, fetch no word list, ask no model, and keep the promises of a text world.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from assay.errors import UserError
from assay.records import canonical_bytes

from .interface import Act, Turn
from .rules import Rules, WorldConfig

GAMES = (
    "2048", "Bandit", "Blackjack", "Crosswords", "FifteenPuzzle", "FrozenLake", "GuessTheNumber", "LightsOut",
    "LogicPuzzle", "Mastermind", "Minesweeper", "PegJump", "RushHour", "Secretary", "Set", "Sudoku", "TowerOfHanoi",
)  # fmt: skip
"""Base of the supported ids: `TowerOfHanoi-v0`, `TowerOfHanoi-v0-medium`."""


class TextArenaConfig(WorldConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of `textarena`. `turns` 0 means 200; the games have limits of their own."""

    id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,100}$")]
    """Registered id, for example TowerOfHanoi-v0."""


class _Say(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Say something to the game, in the form that it asks for."""

    text: Annotated[str, Meta(max_length=20_000)]


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    said: list[str]


class TextArenaWorld(Rules[TextArenaConfig, _Now]):
    """Game of TextArena as a text world."""

    name: ClassVar[str] = "textarena"
    WorldConfig = TextArenaConfig
    Now = _Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"say": _Say}
    path_facts: ClassVar[frozenset[str]] = frozenset({"turns"})

    def generate(self, draw: random.Random) -> None:
        if not self.config.solvable:
            raise ValueError("games of TextArena have no unsolvable twins")
        self._chance: Any = None
        self.limit = self.config.turns or 200
        self.now = _Now([])
        self._begin()

    def _begin(self) -> None:
        with self._own_chance():
            random.seed(self.seed)
            self._game = _make_game(self.config.id)
            try:
                self._game.reset(num_players=1, seed=self.seed % 2**31)
            except (AssertionError, ValueError, TypeError) as exc:
                raise ValueError(f"{self.config.id} is not a single-player game: {exc}") from exc
            self._bare: Any = self._game
            while hasattr(self._bare, "env"):
                self._bare = self._bare.env
            self._text = self._read_observation()
        self._last_text, self._reward = self._text, 0.0

    @contextmanager
    def _own_chance(self) -> Iterator[None]:
        others = random.getstate()
        if self._chance is not None:
            random.setstate(self._chance)
        try:
            with redirect_stdout(io.StringIO()):  # some games print
                yield
        finally:
            self._chance = random.getstate()
            random.setstate(others)

    def _read_observation(self) -> str:
        _, seen = self._game.get_observation()
        return seen if isinstance(seen, str) else "\n".join(str(part[1]) for part in seen)

    def brief(self) -> str:
        return "Play the game; what is in square brackets counts."

    def render(self) -> str:
        return self._last_text.strip()

    def do_say(self, given: _Say) -> Turn:
        self.now.said.append(given.text)
        done = self._send(given.text)
        if done:
            return Turn(self.render(), self._reward, True)
        return Turn(self.render())

    def _send(self, text: str) -> bool:
        with self._own_chance():
            done, _ = self._game.step(action=text)
            if done:
                rewards, info = self._game.close()
                self._reward = float((rewards or {}).get(0, 0.0))
                self._last_text = str((info or {}).get(0, {}).get("reason", "the game is over"))
                return True
            seen = self._read_observation()
        # The game repeats all that was said before.
        self._last_text = seen[len(self._text) :] if seen.startswith(self._text) else seen
        self._text = seen
        return False

    def resume(self) -> None:
        """Replays the moves in another game of the same seed."""
        self._chance = None
        self._begin()
        for text in self.now.said:
            self._send(text)

    def constants(self) -> Any:
        return []

    def position_key(self) -> bytes:
        """Returns the game's own state."""
        return canonical_bytes(_plain(getattr(self._bare.state, "game_state", None)))

    def solved(self) -> bool:
        """Returns whether the full reward was paid."""
        return self._reward >= 1

    def extra_facts(self) -> dict[str, Any]:
        return {"reward": self._reward}

    def oracle(self) -> Act | None:
        return None


def _make_game(name: str) -> Any:
    """Builds the game. Raises `UserError` if TextArena is not installed, `ValueError` if the game is refused."""
    if name.partition("-")[0] not in GAMES:
        raise ValueError(f"id={name}: the games that are played are {', '.join(GAMES)}, as in TowerOfHanoi-v0")
    try:
        import textarena
    except ImportError as exc:
        raise UserError(f"the world 'textarena' needs {exc.name}: pip install 'assay[textarena]'") from exc
    try:
        return textarena.make(name)
    except (ValueError, KeyError, LookupError, ImportError) as exc:
        raise ValueError(f"TextArena does not make {name!r}: {' '.join(str(exc).split())[:300]}") from exc


def _plain(value: Any) -> Any:
    """Converts game state to plain data; other objects to their text."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return value if isinstance(value, str | int | float | bool | None) else type(value).__name__
