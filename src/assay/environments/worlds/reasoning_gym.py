"""Procedural problems of reasoning-gym as text worlds: one question, one answer, scored by the data set's verifier.

Needs the extra `assay[reasoning-gym]`. The seed selects the problem; `config` holds the data set's options, including
its difficulty. The fact `score` is the verifier's; `solved` requires the full score.
"""

from __future__ import annotations

import random
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from assay.errors import UserError

from .interface import Act, Turn
from .rules import Rules, WorldConfig


class ReasoningGymConfig(WorldConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of `reasoning-gym`. `turns` 0 means one answer."""

    dataset: Annotated[str, Meta(pattern=r"^[a-z0-9_]{1,80}$")]
    """Name of the data set, for example chain_sum."""
    config: dict[str, bool | int | float | str] = msgspec.field(default_factory=dict)
    """Options of the data set, for example `{"min_terms": 4}`."""


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Give the answer, and nothing else, as the question asks for it."""

    text: Annotated[str, Meta(max_length=20_000)]


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    score: float | None = None
    """Score of the last answer."""


class ReasoningGymWorld(Rules[ReasoningGymConfig, _Now]):
    """Problem of reasoning-gym as a text world."""

    name: ClassVar[str] = "reasoning-gym"
    WorldConfig = ReasoningGymConfig
    Now = _Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"answer": _Answer}

    def generate(self, draw: random.Random) -> None:
        try:
            import reasoning_gym
        except ImportError as exc:
            raise UserError(f"the world 'reasoning-gym' needs {exc.name}: pip install 'assay[reasoning-gym]'") from exc
        if not self.config.solvable:
            raise ValueError("problems of reasoning-gym have no unsolvable twins")
        name, given = self.config.dataset, self.config.config
        try:
            self._dataset = reasoning_gym.create_dataset(name, seed=self.seed % 2**31, size=1, **given)
            self._entry: dict[str, Any] = self._dataset[0]
        except (ValueError, TypeError, AssertionError, KeyError) as exc:
            raise ValueError(f"reasoning-gym does not make {name!r} with {given}: {exc}") from exc
        answer = self._entry.get("answer")
        self._known = str(answer) if answer is not None and self._score(str(answer)) >= 1 else None
        self.limit = self.config.turns or 1
        self.now = _Now()

    def _score(self, text: str) -> float:
        return min(1.0, max(0.0, float(self._dataset.score_answer(text, self._entry))))

    def brief(self) -> str:
        return "Answer the question."

    def render(self) -> str:
        return str(self._entry["question"])

    def do_answer(self, given: _Answer) -> Turn:
        """Scores the answer; terminates if it is right or the last."""
        self.now.score = score = self._score(given.text)
        if score >= 1:
            return Turn("right", score, True)
        return Turn("wrong", score, self.used >= self.limit)

    def constants(self) -> Any:
        return [self._entry["question"], str(self._entry.get("answer"))]

    def solved(self) -> bool:
        return self.now.score is not None and self.now.score >= 1

    def extra_facts(self) -> dict[str, Any]:
        return {"score": self.now.score, **({"shortest": 1} if self._known is not None else {})}

    def oracle(self) -> Act | None:
        """Gives the data set's own answer, if its scorer accepts it."""
        return None if self.over or self._known is None else ("answer", {"text": self._known})

    def choices(self) -> list[Act]:
        """Returns common guesses."""
        return [] if self.over else [("answer", {"text": text}) for text in ("0", "1", "yes", "no", "A", "")]
