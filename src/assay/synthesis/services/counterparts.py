"""Pairs of tasks that share their requests but for one.

In the first of a pair one request is ambiguous (which record is meant is told when it is asked for), impossible, or
forbidden; in the second it can be done as it is said. Who always asks, or always declines, passes one of them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from assay.environments.services.plans import play
from assay.environments.services.users import Fact, UserScript

from .instruction import Descriptions, Wish, script_of, wish_of
from .policy_compliance import keep_policy
from .requests import Draft, Kind, Trial, ambiguous_argument, draw_declined, draw_possible
from .walk import TRIES, Walker


class Twin(NamedTuple):
    """One of a pair."""

    name: str
    """Its kind, or `plain`."""
    draft: Draft
    script: UserScript | None = None
    """The person's script where it is not that of every task."""


def draw_declined_twins(
    descriptions: Descriptions, walker: Walker, kind: Kind, writes: int, draw: random.Random
) -> tuple[Twin, Twin] | None:
    """Returns a draft one of whose requests must be declined, and its twin in which the same action, on other records,
    can be done; None if this try led to none. Raises `Unspeakable`."""
    world = descriptions.world
    contracts = world.policy.contracts
    first = draw_declined(descriptions, walker, kind, writes, draw)
    kept = None if first is None else keep_policy(world, first.walk, contracts)
    if first is None or kept is None:
        return None
    first = first._replace(walk=kept)
    done = [call for call in first.walk.writes if call in first.walk.plan]
    (declined,) = (call for call in first.walk.writes if call not in done)
    at = first.walk.writes.index(declined)
    action = world.composition.actions[declined.action]
    trial = Trial(play(world, done))
    for _ in range(TRIES):
        call = walker.arguments(action, action.wish, draw)
        if call is None or not trial.is_accepted(call) or call in done:
            continue
        walk = walker.with_reads([*done[:at], call, *done[at:]])
        walk = None if walk is None else keep_policy(world, walk, contracts)
        if walk is not None:
            wishes = (*first.wishes[:at], wish_of(descriptions, call), *first.wishes[at + 1 :])
            return Twin(kind, first), Twin("plain", Draft(walk, wishes))
    return None


def draw_ambiguous_twins(
    descriptions: Descriptions, walker: Walker, writes: int, draw: random.Random
) -> tuple[Twin, Twin] | None:
    """Returns two drafts of the same walk: in the script of the first, the last request fits several records, and the
    person says which one is meant when asked; in the other, they say it at once. None if this try led to none.

    Raises:
        Unspeakable: An argument cannot be described.
    """
    world = descriptions.world
    drawn = draw_possible(walker, writes, draw)
    walk = None if drawn is None else keep_policy(world, drawn.walk, world.policy.contracts)
    if walk is None:
        return None
    last = walk.writes[-1]
    first = ambiguous_argument(descriptions, Trial(world), last)
    then = None if first is None else ambiguous_argument(descriptions, Trial(play(world, walk.writes[:-1])), last)
    if first is None or then is None or first.name != then.name or len({*first.records} & {*then.records}) < 2:
        return None
    wishes = [wish_of(descriptions, call) for call in walk.writes]
    slot = wishes[-1].slots.get(first.name)
    if slot is None or not slot.noun:
        return None
    owner = walker.path_to(*first.owner)
    if owner is None:
        return None
    draft = Draft(walk, tuple(wishes))
    vague = [*wishes[:-1], wish_of(descriptions, last, words={first.name: first.words})]
    plain = script_of(wishes, walk.known, draw.randrange(1_000), is_vague=False)
    told = [replace(fact, disclosure="open") for fact in plain.facts]
    at_once = {fact.value for fact in owner[1]}
    later = [one if any(value in one.text for value in at_once) else replace(one, disclosure="asked") for one in told]
    which = Fact(f"{len(wishes)} {first.name}", f"I mean {slot.spoken}.", (*slot.cues, "which"))
    ambiguous = replace(plain, goal=_goal(plain, vague), facts=(which, *later))
    return Twin("ambiguous", draft, ambiguous), Twin("plain", draft, replace(plain, facts=tuple(told)))


def _goal(script: UserScript, wishes: Sequence[Wish]) -> str:
    return script_of(wishes, (), script.seed, is_vague=False).goal
