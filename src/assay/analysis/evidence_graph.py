"""Evidence graph of a team: which of the facts that a task needs were found, by whom, and how often. Pure.

A fact is a text that the world names. An actor finds it where an observation of its own world calls holds the text, or
where it tells another actor first what it knew from the start. With the texts that each part of the task's knowledge
begins with (`starts`), a guess is no find; without them, a record cannot tell the two apart. A fact that was found
before is found again, by the same actor or by another one; passing on what one has read or was told is no find.

After the shared evidence graph of Argus, which is catalogued from its abstract alone: coverage without duplication. The
definitions are ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from assay.records import HAND_OFF, TEAM, TEAM_MESSAGE, HandOff, Step, TeamMessage, Trajectory, world_calls

from .actor_usage import read_evidence

Starts = Mapping[int | str, str]
"""Text that an actor reads at the start by the part of the knowledge that it is given: its number, or `all`."""


class Find(NamedTuple):
    """An edge of the graph: an actor found a fact at a step."""

    fact: int
    """Index of the fact."""
    actor: str
    step: int
    told: bool
    """True if the actor knew it from the start and told it here; False if it is in an observation."""


class ActorFinds(msgspec.Struct, frozen=True, kw_only=True):
    """One actor's part in an evidence graph."""

    actor: str
    first: int
    """Facts that it was the first to find."""
    again: int
    """Finds of facts that were found before, by itself or by another one."""
    acts: int
    """Calls of the environment's tools."""


class EvidenceGraph(msgspec.Struct, frozen=True, kw_only=True):
    """Coverage and duplication of one attempt."""

    needed: int
    found: int
    """Facts that were found at least once."""
    shared: int
    """Found facts that reached another actor in a message or hand-off."""
    finds: int
    """Finds in all."""
    actors: tuple[ActorFinds, ...]
    """By order of their first step; a single agent is called `agent`."""

    @property
    def searchers(self) -> int:
        """Returns the number of actors that found something."""
        return sum(one.first + one.again > 0 for one in self.actors)

    @property
    def repeated(self) -> int:
        """Returns the finds beyond the first of each fact."""
        return self.finds - self.found


def find_facts(trajectory: Trajectory, facts: Sequence[str], starts: Starts | None = None) -> list[Find]:
    """Returns the finds of an attempt by step. A text is found as a whole: not within a longer word or number."""
    patterns, sent = _patterns(facts), _sent_by_step(trajectory)
    knew = None if starts is None else _known_from_start(trajectory, patterns, starts)
    heard: dict[str, set[int]] = {}
    found = []
    for step in trajectory.steps:
        if step.actor != "agent":
            continue
        actor = step.actor_name or step.actor
        seen = _facts_in(_world_text(step), patterns)
        found += [Find(fact, actor, step.index, told=False) for fact in seen]
        heard.setdefault(actor, set()).update(seen)
        for text, receivers in sent.get((step.index, actor), ()):
            told = _facts_in(text, patterns) if receivers else []
            if knew is not None:  # a guess is neither found nor heard, so that it takes no find of another
                told = [fact for fact in told if fact in knew.get(actor, ()) or fact in heard[actor]]
            found += [Find(fact, actor, step.index, told=True) for fact in told if fact not in heard[actor]]
            for name in (actor, *receivers):
                heard.setdefault(name, set()).update(told)
    return found


def build_evidence_graph(trajectory: Trajectory, facts: Sequence[str], starts: Starts | None = None) -> EvidenceGraph:
    """Returns the evidence graph of an attempt at a task that needs these facts."""
    finds = find_facts(trajectory, facts, starts)
    first = {find.fact: at for at, find in reversed([*enumerate(finds)])}
    acts: dict[str, int] = {}
    for step in trajectory.steps:
        if step.actor == "agent":
            name = step.actor_name or step.actor
            acts[name] = acts.get(name, 0) + len(world_calls(step))
    patterns = _patterns(facts)
    texts = [text for several in _sent_by_step(trajectory).values() for text, receivers in several if receivers]
    return EvidenceGraph(
        needed=len(facts),
        found=len(first),
        shared=len({fact for text in texts for fact in _facts_in(text, patterns)} & first.keys()),
        finds=len(finds),
        actors=tuple(
            ActorFinds(
                actor=name,
                first=sum(finds[at].actor == name for at in first.values()),
                again=sum(find.actor == name and first[find.fact] != at for at, find in enumerate(finds)),
                acts=number,
            )
            for name, number in acts.items()
        ),
    )


def coverage_gains(trajectory: Trajectory, facts: Sequence[str], starts: Starts | None = None) -> dict[int, float]:
    """Returns for each step the share of the needed facts that were found there for the first time."""
    known, gains = set[int](), dict[int, float]()
    for find in find_facts(trajectory, facts, starts):
        if find.fact not in known:
            known.add(find.fact)
            gains[find.step] = gains.get(find.step, 0.0) + 1 / len(facts)
    return gains


def _known_from_start(
    trajectory: Trajectory, patterns: Sequence[re.Pattern[str]], starts: Starts
) -> dict[str, list[int]]:
    """Returns the facts in the text that each actor of a team began with."""
    views = next((item.data.get("views") for item in trajectory.evidence if item.kind == TEAM), None)
    given = views if isinstance(views, dict) else {}
    return {
        name: _facts_in(starts.get(part, ""), patterns) for name, part in given.items() if isinstance(part, int | str)
    }


def _patterns(facts: Sequence[str]) -> list[re.Pattern[str]]:
    return [re.compile(rf"(?<!\w){re.escape(fact)}(?!\w)") for fact in facts]


def _facts_in(text: str, patterns: Sequence[re.Pattern[str]]) -> list[int]:
    return [fact for fact, pattern in enumerate(patterns) if pattern.search(text)]


def _world_text(step: Step) -> str:
    """Returns what a step's calls of the environment's tools showed, failed ones excluded."""
    made, shown = world_calls(step), zip(step.tool_calls, step.observations, strict=False)
    return "\n".join(seen.content for call, seen in shown if call in made and not seen.error)


def _sent_by_step(trajectory: Trajectory) -> dict[tuple[int, str], list[tuple[str, tuple[str, ...]]]]:
    """Returns the texts that were sent or handed off, with their receivers, by step and sender."""
    messages = read_evidence(trajectory, TEAM_MESSAGE, TeamMessage)
    found: dict[tuple[int, str], list[tuple[str, tuple[str, ...]]]] = {}
    for message in messages:
        found.setdefault((message.step, message.sender), []).append((message.text, message.receivers))
    for one in read_evidence(trajectory, HAND_OFF, HandOff):
        if one.step is not None:
            found.setdefault((one.step, one.sender), []).append((one.text, (one.receiver,)))
    return found
