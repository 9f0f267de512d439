"""Adapter of a text world to a run: `PlayedWorld` is a `World` with the hooks of admission.

It turns acts into observations, records the reward of each, and reports the end of the episode. Advice and possible
acts are for agents that ask for them, such as `expert` and `oracle`; a model sees the tools alone.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from assay.environments.interface import ToolSpec
from assay.errors import EnvironmentFailure, boundary
from assay.records import Observation, ToolCall, canonical_bytes

from .interface import Act, OffersChoices, TextWorld, Turn
from .sampling import sampled_act

MOST_ACTS = 2_000
"""Maximum length of a solution."""
_MOST_ALONE, _WANDERINGS = 24, 6
"""Acts tried alone, and in random sequences, as shortcuts."""


class ActReward(NamedTuple):
    """Outcome of one act beside its observation."""

    step: int
    reward: float
    progress: float | None
    error: bool


class PlayedWorld:
    """Text world as a `World`; the text world must be fresh."""

    def __init__(self, world: TextWorld) -> None:
        self.world = world
        self.step = 0
        """Index of the current step; set by the recorder."""
        self.paid: list[ActReward] = []
        self._last: Turn | None = None

    # Methods of `World` and `Episodic`.

    def specs(self) -> tuple[ToolSpec, ...]:
        return self.world.tools()

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        over = self._last is not None and (self._last.terminated or self._last.truncated)
        with boundary(EnvironmentFailure, "the world"):  # an exception of the world is not the agent's failure
            turn = self.world.act(name, arguments)
        if not over:  # calls after the end are answered and do not belong to the episode
            self._last = turn
            self.paid.append(ActReward(self.step, turn.reward, self.world.progress(), turn.error))
        return Observation(turn.observation, error=turn.error)

    async def digest(self) -> str | None:
        return self.world.state()

    def facts(self) -> dict[str, Any]:
        return self.world.facts()

    async def close(self) -> None:
        """Does nothing: no resources are held."""

    def snapshot(self) -> bytes:
        """Returns the world's state without the rewards paid so far."""
        return self.world.snapshot()

    def restore(self, state: bytes) -> None:
        self.world.restore(state)

    def fork(self) -> PlayedWorld:
        """Returns an independent copy, with the rewards paid so far."""
        other = PlayedWorld(self.world.fork())
        other.step, other.paid, other._last = self.step, [*self.paid], self._last
        return other

    def progress(self) -> float | None:
        """Returns the share of the solution done; None if unknown. Only the verifier's side may know it."""
        return self.world.progress()

    @property
    def terminated(self) -> bool:
        return self._last is not None and self._last.terminated

    @property
    def truncated(self) -> bool:
        return self._last is not None and self._last.truncated and not self._last.terminated

    def episode(self) -> dict[str, Any]:
        columns = zip(*self.paid, strict=True) if self.paid else ((), (), (), ())
        steps, rewards, progress, errors = (list(column) for column in columns)
        return {
            "terminated": self.terminated,
            "truncated": self.truncated,
            "reward": sum(rewards),
            "steps": steps,
            "rewards": rewards,
            "progress": progress,
            "errors": errors,
        }

    # For agents that ask the world for advice, or for possible acts.

    def advice(self) -> ToolCall | None:
        """Returns the first call of a shortest solution; None without one."""
        act = self.world.oracle()
        return None if act is None else as_call(act, len(self.paid))

    def any_act(self, draw: random.Random) -> ToolCall | None:
        """Returns a random possible call; None if the world is over or offers none."""
        if self.terminated or self.truncated:
            return None
        act = _random_act(self.world, draw)
        return None if act is None else as_call(act, len(self.paid))

    def possible_acts(self) -> tuple[ToolCall, ...]:
        """Returns possible calls, at most 100; empty if the world is over or lists none."""
        return () if self.terminated or self.truncated else _as_calls(_choices(self.world))

    # Hooks of admission, answered on forks of a world without an agent.

    def oracle(self) -> tuple[ToolCall, ...]:
        """Plays the shortest solution on a fork; empty without one."""
        return _as_calls(solution(self.world))

    def null(self) -> Mapping[str, tuple[ToolCall, ...]]:
        """Returns calls of no tool, and acts that leave the state unchanged."""
        ways: dict[str, tuple[ToolCall, ...]] = {"no-such-tool": _as_calls([("no_such_tool", {})])}
        here = self.world.state()
        idle = [act for act in _choices(self.world) if _play(self.world, [act]).state() == here]
        if idle:
            ways["idle"] = _as_calls(idle[:3])
        return ways

    def perturb(self, seed: int) -> Mapping[str, tuple[ToolCall, ...]]:
        """Returns variants of the solution: cut, with one act omitted, doubled, swapped with the next, or replaced."""
        draw, right = random.Random(seed), solution(self.world)
        ways: dict[str, list[Act]] = {}
        for at in sorted(draw.sample(range(len(right)), min(4, len(right)))):
            ways[f"cut-before-{at}"] = right[:at]
            ways[f"without-{at}"] = right[:at] + right[at + 1 :]
            ways[f"twice-{at}"] = [*right[: at + 1], *right[at:]]
            other = _random_act(_play(self.world, right[:at]), draw)
            if other is not None and other != right[at]:
                ways[f"other-{at}"] = [*right[:at], other, *right[at + 1 :]]
            if at + 1 < len(right) and right[at] != right[at + 1]:
                ways[f"exchanged-{at}"] = [*right[:at], right[at + 1], right[at], *right[at + 2 :]]
        return {name: _as_calls(acts) for name, acts in ways.items() if acts}

    def shortcuts(self, seed: int) -> Mapping[str, tuple[ToolCall, ...]]:
        """Returns each possible act alone and some random sequences, unless they solve the world."""
        draw, ways = random.Random(seed), dict[str, list[Act]]()
        for act in _choices(self.world)[:_MOST_ALONE]:
            ways.setdefault("-".join([act[0], *(str(value) for value in act[1].values())])[:50], [act])
        for number in range(_WANDERINGS):
            other, acts = self.world.fork(), list[Act]()
            while len(acts) < 2 + number and (act_now := _random_act(other, draw)) is not None:
                acts.append(act_now)
                if other.act(*act_now).terminated:
                    break
            ways[f"wandering-{number}"] = acts
        return {name: _as_calls(acts) for name, acts in ways.items() if not _play(self.world, acts).facts()["solved"]}

    def collect(self) -> dict[str, Any]:
        """Returns the facts, except those about the path taken."""
        path_facts = getattr(self.world, "path_facts", frozenset({"turns"}))
        return {name: value for name, value in self.world.facts().items() if name not in path_facts}


class PlayedView:
    """A text world as an agent acts in it: without advice, progress, facts, saved states, and the world itself, which
    the verifier's side knows. An agent that declares what it is may have the `PlayedWorld`."""

    def __init__(self, played: PlayedWorld) -> None:
        self._played = played
        self.specs, self.call, self.digest = played.specs, played.call, played.digest
        self.any_act, self.possible_acts = played.any_act, played.possible_acts

    @property
    def terminated(self) -> bool:
        return self._played.terminated

    @property
    def truncated(self) -> bool:
        return self._played.truncated


def text_world_of(tools: object) -> TextWorld | None:
    """Returns the text world of an attempt's tools, for the parts of a rollout that seat actors in it; None if they are
    of another environment."""
    played = tools._played if isinstance(tools, PlayedView) else tools
    return played.world if isinstance(played, PlayedWorld) else None


def as_call(act: Act, number: int) -> ToolCall:
    """Converts an act to a tool call as written by a model."""
    name, arguments = act
    return ToolCall(f"a{number}", name, canonical_bytes(arguments).decode(), arguments)


def _as_calls(acts: list[Act]) -> tuple[ToolCall, ...]:
    return tuple(as_call(act, number) for number, act in enumerate(acts))


def solution(world: TextWorld) -> list[Act]:
    """Plays a fork to find a shortest solution; empty if none has at most 2,000 acts."""
    other, acts = world.fork(), list[Act]()
    while (act := other.oracle()) is not None and len(acts) < MOST_ACTS:
        acts.append(act)
        turn = other.act(*act)
        if turn.terminated or turn.truncated:
            break
    return acts if other.facts()["solved"] else []


def _play(world: TextWorld, acts: list[Act]) -> TextWorld:
    other = world.fork()
    for act in acts:
        other.act(*act)
    return other


def _choices(world: TextWorld) -> list[Act]:
    return list(world.choices()) if isinstance(world, OffersChoices) else []


def _random_act(world: TextWorld, draw: random.Random) -> Act | None:
    """Returns a possible act; if the world offers none, one that its tools' schemas allow."""
    known = _choices(world)
    return draw.choice(known) if known else sampled_act(world.tools(), draw)
