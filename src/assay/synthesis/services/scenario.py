"""Scenarios for a simulated person, as tau2-bench writes them, as scripts of the rule-driven person.

A scenario is prose in the second person: what the person wants, knows, and how they behave. What they want becomes the
first message, what they know becomes facts that they tell when asked. A scenario that makes later conduct depend on
what the agent says ("if", "unless", "insist") has no such script: rules would play another person.

Not covered: grammar beyond pronouns and the forms of `to be`; a manner, such as impatience, is said and not shown.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from assay.environments.services.users import Fact, UserAct, UserScript

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_CONDITION: Final = re.compile(
    r"\b(if|unless|when|whenever|once|until|till|otherwise|depending|insist\w*|refuse\w*|accept\w*|agree\w*|mention|"
    r"respond|reply|ask|asks|asked|tell|pretend|volunteer|willing|randomly|typos|transfer\w*|agent|confusing|try|tries)\b",
    re.I,
)
_STATEMENT: Final = re.compile(
    r"^\W*(you|your|you're|for|from|also|it|the|there|since|due|in|on|additionally|lastly|and|this|these|all|any|both|"
    r"actually|some|one|two)\b",
    re.I,
)
_OBJECT: Final = re.compile(
    r"\b(to|for|of|with|from|by|at|on|about|allows?|gives?|give|sends?|send|helps?|help|lets?|let|charged?|told|"
    r"refunds?|cost|costs|offers?|takes?|sent|between)\s+you\b",
    re.I,
)
_CUES: Final = (
    (re.compile(r"\b[a-z]+_[a-z]+_\d{2,}\b|\buser id\b", re.I), ("user id", "username", "account", "id")),
    (re.compile(r"@"), ("email", "e-mail")),
    (re.compile(r"\b\d{5}\b|\bzip", re.I), ("zip", "postal", "address")),
    (re.compile(r"\b(reservation|confirmation)\b", re.I), ("reservation", "confirmation", "booking")),
    (re.compile(r"#W\d+|\border\b", re.I), ("order",)),
    (re.compile(r"\bphone\b", re.I), ("phone", "number", "line")),
    (re.compile(r"\b(home|abroad|france|states)\b", re.I), ("where", "location", "abroad", "travel")),
    (re.compile(r"^(you are|you're|your name is|you name is)\b", re.I), ("name",)),
)
_ANY: Final = ("identify", "verify", "details", "information", "who")


class Instructions(msgspec.Struct, frozen=True):
    """Instructions of the simulated person."""

    reason_for_call: str
    task_instructions: str = ""
    known_info: str | None = None
    unknown_info: str | None = None
    domain: str = ""


class Scenario(msgspec.Struct, frozen=True):
    """A simulated person."""

    instructions: Instructions | str
    persona: str | None = None


class Unscriptable(Exception):
    """A scenario that rules cannot play; the message says why."""


def as_ticket(scenario: Scenario) -> str:
    """Returns everything that the person is told, as one text."""
    told = scenario.instructions
    if isinstance(told, str):
        return told.strip()
    parts = [told.reason_for_call, told.known_info, told.unknown_info, told.task_instructions]
    return "\n\n".join(part.strip() for part in parts if part and part.strip(" .\n"))


def as_script(scenario: Scenario, acts: tuple[UserAct, ...] = (), *, follows_advice: bool = False) -> UserScript:
    """Returns the script of a person.

    Args:
        scenario: The scenario.
        acts: What the person does with tools of their own when asked.
        follows_advice: Whether the conduct that the scenario asks for is just to do what the agent says, so that its
            instructions need no rules of their own.

    Raises:
        Unscriptable: The person's conduct depends on what the agent says.
    """
    told = scenario.instructions
    if isinstance(told, str):
        raise Unscriptable("the scenario is one text")
    wishes = _sentences(told.reason_for_call)
    if not follows_advice:
        wishes += _sentences(told.task_instructions)
        for sentence in wishes:
            if found := _CONDITION.search(sentence):
                raise Unscriptable(f"the person's conduct depends on the conversation ({found[0].lower()!r})")
            if not _STATEMENT.search(sentence):
                raise Unscriptable(f"a sentence may be no statement: {sentence[:60]!r}")
    known = [_fact(at, sentence) for at, sentence in enumerate(_sentences(told.known_info or ""))]
    goal = " ".join(first_person(sentence) for sentence in wishes)
    return UserScript(goal, tuple(known), acts=acts, patience=30)


def first_person(text: str) -> str:
    """Returns a text in the second person as its subject would say it."""
    text = re.sub(r"^you (name|mobile)\b", r"your \1", text, flags=re.I)
    text = _OBJECT.sub(lambda found: f"{found[0][:-3]}me", text)
    rules = (
        (r"\byou('re| are)\b", "I am"),
        (r"\byou were\b", "I was"),
        (r"\byourself\b", "myself"),
        (r"\byours\b", "mine"),
        (r"\byour\b", "my"),
        (r"\byou('d|'ll|'ve)\b", r"I\1"),
        (r"\byou\b", "I"),
    )
    for pattern, words in rules:
        text = re.sub(pattern, words, text, flags=re.I)
    return text[:1].upper() + text[1:]


def _sentences(text: str) -> list[str]:
    found = [sentence.strip() for sentence in _SENTENCE_END.split(text)]
    return [sentence for sentence in found if sentence.strip(".")]


def _fact(number: int, sentence: str) -> Fact:
    cues = [cue for pattern, words in _CUES if pattern.search(sentence) for cue in words]
    return Fact(f"known {number}", first_person(sentence), tuple(dict.fromkeys([*cues, *_ANY])))
