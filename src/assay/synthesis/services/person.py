"""Makes the person of a conversation harder to serve: mood, patience, when they tell facts, mistakes, a changed mind.

The requests stay as they are, so the reference solution does: what changes is what an agent must ask to know them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from assay.environments.services.plans import PlannedCall, identifiers
from assay.environments.services.users import ChangeOfMind, Disclosure, Fact, Mood, UserScript, begin, reply

from .difficulty import MOODS, TELLINGS, Harder
from .instruction import Descriptions, Unspeakable, Wish

_GENERAL: Final = frozenset({"identify", "verify", "contact", "details", "which", "name", "called"})
"""Cues of questions that name no fact."""
_CAUTION: Final = "Before you change anything, tell me what you are going to do: I may have mixed something up."
_NOTICED: Final = 2
"""Turn from which the person notices a mistake, at the latest at the next message."""
_MOST_TURNS: Final = 60
_OTHERS: Final = 20


def shape_person(
    script: UserScript,
    harder: Harder,
    descriptions: Descriptions,
    asked: Sequence[tuple[PlannedCall, Wish]],
    draw: random.Random,
) -> UserScript:
    """Returns the script of a person who is as hard to serve as the options say.

    Args:
        script: What they want and know.
        harder: The options.
        descriptions: Descriptions of the world's records.
        asked: Requests, in the order of the wishes, which number the facts.
        draw: Source of randomness.

    Raises:
        Unspeakable: They know too few facts to be wrong about.
    """
    if not harder.has_person:
        return script
    mood: Mood = draw.choice(MOODS) if harder.mood == "mixed" else harder.mood
    facts = [_told_when(fact, script.facts, harder.disclosure, draw) for fact in script.facts]
    goal = script.goal
    if harder.wrong:
        mistaken = 0
        for at in draw.sample(range(len(facts)), len(facts)):
            wrong = _mistake(facts[at], descriptions, asked, draw) if mistaken < harder.wrong else ""
            if wrong:
                facts[at] = replace(facts[at], wrong=wrong, corrects_at=_NOTICED, disclosure="asked")
                mistaken += 1
        if mistaken < harder.wrong:
            raise Unspeakable("the person knows too few facts to be wrong about")
        goal = f"{goal} {_CAUTION}"
    return replace(script, goal=goal, facts=tuple(facts), mood=mood, patience=harder.patience)


def change_mind(script: UserScript, text: str, draw: random.Random) -> UserScript:
    """Returns the script of a person who says something else at one of the turns that an agent needs to know their
    request, so that whoever asks enough hears it. Raises `Unspeakable`."""
    return replace(script, changes=(ChangeOfMind(draw.randint(1, max(1, questions_needed(script))), text),))


def questions_needed(script: UserScript) -> int:
    """Returns the messages of an agent that asks at once for everything that it does not know yet, until it knows all.

    Raises:
        Unspeakable: They do not tell all.
    """
    state, _ = begin(script)
    wanted = [fact for fact in script.facts if fact.disclosure != "withheld"]
    for turn in range(_MOST_TURNS):
        missing = [fact for fact in wanted if fact.name not in state.told]
        if not missing or state.left:
            if missing:
                break
            return turn
        message = " ".join(f"Which {fact.cues[0]} do you mean?" for fact in missing)
        state, _, _ = reply(script, state, message)
    raise Unspeakable("the person does not tell what they know")


def _told_when(fact: Fact, others: Sequence[Fact], disclosure: str, draw: random.Random) -> Fact:
    if fact.disclosure != "asked":
        return fact
    chosen = draw.choice(TELLINGS) if disclosure == "mixed" else disclosure
    if chosen == "precise":
        shared = _GENERAL.union(*(other.cues for other in others if other is not fact))
        own = tuple(cue for cue in fact.cues if cue not in shared)
        return replace(fact, cues=own or fact.cues[:1])
    told: Disclosure = "insisted" if chosen == "insisted" else "asked"
    return replace(fact, disclosure=told)


def _mistake(
    fact: Fact, descriptions: Descriptions, asked: Sequence[tuple[PlannedCall, Wish]], draw: random.Random
) -> str:
    """Returns the sentence of a fact with another record of the same kind in it; empty without one."""
    world = descriptions.world
    number, _, name = fact.name.partition(" ")
    if fact.disclosure == "open" or not number.isdigit() or int(number) > len(asked):
        return ""
    call, wish = asked[int(number) - 1]
    slot, kind = wish.slots.get(name), world.composition.actions[call.action].takes.get(name)
    if slot is None or kind is None or slot.spoken not in fact.text:
        return ""
    others = identifiers(world, kind)
    for other in draw.sample(others, min(_OTHERS, len(others))):
        try:
            spoken = descriptions.describe(kind, other)
        except Unspeakable:
            continue
        if other != str(call.arguments.get(name)) and spoken != slot.spoken:
            return fact.text.replace(slot.spoken, spoken)
    return ""
