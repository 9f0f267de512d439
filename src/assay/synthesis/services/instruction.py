"""Writes what a person asks for, from a walk: three levels, by templates over wishes and descriptions.

`explicit` lists the wishes as an order with all that the reads need. `implicit` says them as a person would, in one
paragraph. `persona` is a conversation: the first message holds the wishes, and the rest is told when it is asked for.

The person of a conversation follows rules; as an oracle they tell everything in the first message; and without a person
the instruction holds everything that they would tell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from string import Formatter
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, get_type_hints

from msgspec.structs import replace

from assay.environments.services.declaration import Action
from assay.environments.services.plans import PlannedCall
from assay.environments.services.record_names import row_of
from assay.environments.services.schema import UNIT, Table, format_cents, metadata
from assay.environments.services.transaction import Transaction
from assay.environments.services.users import Fact, UserScript, as_oracle, as_ticket, begin
from assay.environments.services.world import ServiceWorld

from .walk import PersonFact, Walk

Level = Literal["explicit", "implicit", "persona"]
LEVELS: Final[tuple[Level, ...]] = ("explicit", "implicit", "persona")
UserMode = Literal["rules", "none", "oracle", "model"]
USER_MODES: Final[tuple[UserMode, ...]] = ("rules", "none", "oracle", "model")

_OPENINGS: Final = ("Hello.", "Hi there.", "Good morning.", "Hi, I hope you can help me.")
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
_JOINS: Final = ("Also, please", "Then please", "And please", "Besides, please")


class Wording(NamedTuple):
    """An instruction, and the person's script where there is one."""

    text: str
    script: UserScript | None
    share_given: float
    """Share of the writes' arguments whose exact value is in the text: a measure of over-specification."""

    def with_sentence(self, sentence: str) -> Wording:
        """Returns the wording of a person whose first message ends with a further sentence."""
        assert self.script is not None, "only a person says more"
        return self._replace(script=replace(self.script, goal=f"{self.script.goal} {sentence}"))


class Unspeakable(Exception):
    """A plan that cannot be asked for: a row has no description, or not one of its own."""


class Descriptions:
    """How people refer to the rows of a world, which must not change meanwhile."""

    def __init__(self, world: ServiceWorld) -> None:
        self.world = world
        self._counts: dict[str, Counter[str]] = {}

    def describe(self, kind: str, value: str) -> str:
        """Returns the description of the row that an identifier names, or the identifier if people know it by heart.

        Raises:
            Unspeakable: The row has no description, or another row has the same.
        """
        found = row_of(self.world, kind, value)
        if found is None:
            return value
        table, row = found
        service = next(service for service in self.world.composition.services if service.name == table.service)
        describe = service.descriptions.get(table.row)
        if describe is None:
            if table.columns[table.key_positions[0]].prefix:
                raise Unspeakable(f"{table.sql_name} has no description")
            return value
        transaction = Transaction(self.world, self.world.database.connection, service.name, "system", "")
        text = describe(transaction, row)
        counts = self._counts.get(table.sql_name)
        if counts is None:
            others = (table.to_row(values) for values in self.world.database.rows(table))
            counts = self._counts[table.sql_name] = Counter(describe(transaction, other) for other in others)
        if counts[text] > 1:
            raise Unspeakable(f"two rows of {table.sql_name} are both {text}")
        return text

    def noun(self, table: Table) -> str:
        """Returns what people call a row of a table."""
        service = next(service for service in self.world.composition.services if service.name == table.service)
        return service.nouns.get(table.row, table.label)


class Slot(NamedTuple):
    """A place of a wish that its argument fills."""

    spoken: str
    """How a person says the argument."""
    noun: str
    """Noun of the row that it names; empty where a person says the identifier itself."""
    cues: tuple[str, ...]
    """Words of a question for it."""


class Wish(NamedTuple):
    """A request of a person, with the arguments of one call put in."""

    template: str
    slots: dict[str, Slot]

    @property
    def text(self) -> str:
        return self.template.format_map({name: slot.spoken for name, slot in self.slots.items()})

    def vague(self, number: int, *, only: bool) -> tuple[str, list[Fact]]:
        """Returns the wish with its rows left open, and the facts that say which rows are meant.

        Args:
            number: Number of the wish, from 1.
            only: Whether it is the only wish.
        """
        words: dict[str, str] = {}
        facts: list[Fact] = []
        for name, slot in self.slots.items():
            noun = slot.noun
            if not noun:
                words[name] = slot.spoken
                continue
            is_second = any(word.endswith(f" {noun}") for word in words.values())
            words[name] = f"another {noun}" if is_second else f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
            matter = "" if only else f"In the {_ORDINALS[number - 1]} matter: "
            the = f"{'The' if only else 'the'} {'other ' if is_second else ''}"
            facts.append(Fact(f"{number} {name}", f"{matter}{the}{noun} is {slot.spoken}.", slot.cues))
        return self.template.format_map(words), facts


def wish_of(
    descriptions: Descriptions, call: PlannedCall, template: str = "", words: Mapping[str, str] = MappingProxyType({})
) -> Wish:
    """Returns the wish that a call fulfils.

    Args:
        descriptions: Descriptions of the world's rows.
        call: The call.
        template: Text with `{argument}` for arguments; default: that of the action.
        words: Words for some arguments instead of the descriptions of their rows.

    Raises:
        Unspeakable: An argument is missing, or its row cannot be described.
    """
    action = descriptions.world.composition.actions[call.action]
    template = template or action.wish
    slots: dict[str, Slot] = {}
    for name in [name for _, name, _, _ in Formatter().parse(template) if name]:
        if name not in call.arguments:
            raise Unspeakable(f"{call.action} has no value for {name}")
        spoken = words[name] if name in words else speak_value(descriptions, action, name, call.arguments[name])
        noun, label = _nouns(descriptions, action.takes.get(name), str(call.arguments[name]))
        cues = (noun, *noun.split(), label, *label.split(), *name.removesuffix("_id").split("_"))
        slots[name] = Slot(spoken, noun, tuple(dict.fromkeys(cues)))
    return Wish(template, slots)


def _nouns(descriptions: Descriptions, kind: str | None, value: str) -> tuple[str, str]:
    """Returns what people and what the tools call the row that an identifier names; both are empty where a person
    says the identifier itself."""
    found = None if kind is None else row_of(descriptions.world, kind, value)
    return ("", "") if found is None else (descriptions.noun(found[0]), found[0].label)


def write_instruction(
    wishes: Sequence[Wish],
    walk: Walk,
    level: Level,
    seed: int,
    user: UserMode = "rules",
    shape: Callable[[UserScript], UserScript] = lambda script: script,
) -> Wording:
    """Returns the instruction of a walk, whose wishes are the requests in their order; `user` is the person of
    `persona`, and `shape` makes their script another."""
    texts = [wish.text for wish in wishes]
    said = " ".join(texts).lower()
    known = [fact for fact in walk.known if not _is_said(fact, said)]
    facts = _sentences(known)
    script = None
    if level == "explicit":
        steps = "\n".join(f"{number}. {_as_sentence(_capital(wish))}" for number, wish in enumerate(texts, 1))
        text = "\n".join(["Do the following for the person whom you serve, and nothing else:", steps, *facts])
    elif level == "implicit":
        parts = [_as_sentence(f"Please {texts[0]}")]
        parts += [_as_sentence(f"{_JOINS[(seed + at) % len(_JOINS)]} {wish}") for at, wish in enumerate(texts[1:])]
        text = " ".join([_OPENINGS[seed % len(_OPENINGS)], *facts, *parts])
    elif user == "none":
        ticket = as_ticket(shape(script_of(wishes, known, seed)))
        text = f"Do what the person of this ticket wants, and nothing else. They cannot be asked.\n\n{ticket}"
    else:
        script = shape(script_of(wishes, known, seed))
        script = as_oracle(script) if user == "oracle" else script
        text = (
            "Serve the person in this conversation: `read_messages` shows what they wrote, and `send_message` asks "
            "and answers them. Do what they want, and nothing else."
        )
    return Wording(text, script, _share_given(walk, text if script is None else begin(script)[1]))


def write_change(dropped: Wish, added: Wish, facts: Sequence[PersonFact]) -> str:
    """Returns what a person says who wants something else in place of one wish; `facts` are what they tell beside."""
    said = f"{dropped.text} {added.text}".lower()
    sentences = [
        _as_sentence(f"Please do not {dropped.text}"),
        _as_sentence(f"Instead, {added.text}"),
        *(_sentence(fact) for fact in facts if fact.value.lower() not in said),
    ]
    return " ".join(sentences)


def script_of(wishes: Sequence[Wish], known: Sequence[PersonFact], seed: int, *, is_vague: bool = True) -> UserScript:
    """Returns the person's script: the wishes come first, and what they are about when it is asked for; if it is not
    vague, the wishes say it."""
    said = [_OPENINGS[seed % len(_OPENINGS)]]
    facts: list[Fact] = []
    for number, wish in enumerate(wishes, 1):
        text, more = wish.vague(number, only=len(wishes) == 1) if is_vague else (wish.text, [])
        said.append(_as_sentence(f"I would like you to {text}" if number == 1 else f"Then {text}"))
        facts += more
    described = " ".join([*(fact.text for fact in facts), *([] if is_vague else said)]).lower()
    facts += [
        Fact(f"{fact.kind} {at}", _sentence(fact), _cues(fact))
        for at, fact in enumerate(known)
        if not _is_said(fact, described)
    ]
    return UserScript(" ".join(said), tuple(facts), seed=seed)


def _cues(fact: PersonFact) -> tuple[str, ...]:
    words = tuple(word for word in re.findall(r"[a-z]+", fact.kind.lower()) if word not in ("of", "the", "number"))
    more = ("details", "which", "name", "called") if fact.kind == "words" else ()
    return (fact.kind.lower(), *words, *more, "identify", "verify", "contact")


def _is_said(fact: PersonFact, text: str) -> bool:
    """Returns whether a text in lower case holds the value of a fact, or its date as people write it."""
    if fact.value.lower() in text:
        return True
    return fact.kind == "date" and len(fact.value) == len("2026-03-05") and spoken_date(fact.value).lower() in text


def _sentences(facts: Sequence[PersonFact]) -> list[str]:
    """Returns the facts in sentences: `The email address is ... and the date of birth is ...`.

    Facts of different kinds that follow each other were found for one record, so they stand in one sentence.
    """
    groups: list[list[PersonFact]] = []
    for fact in facts:
        is_alone = fact.kind in ("words", "date")
        kinds = {other.kind for other in groups[-1]} if groups else {fact.kind}
        if is_alone or fact.kind in kinds or kinds & {"words", "date"}:
            groups.append([fact])
        else:
            groups[-1].append(fact)
    return [_capital(" and ".join(_clause(fact) for fact in group)) + "." for group in groups]


def _sentence(fact: PersonFact) -> str:
    return _capital(f"{_clause(fact)}.")


def _clause(fact: PersonFact) -> str:
    if fact.kind == "words":
        return f"it is about {fact.value}"
    if fact.kind == "date":
        return f"it is about {spoken_date(fact.value)}" + (f" at {fact.value[11:]}" if "T" in fact.value else "")
    return f"the {fact.kind} is {fact.value}"


def speak_value(descriptions: Descriptions, action: Action, name: str, value: Any) -> str:
    """Returns how a person says the value of an argument. Raises `Unspeakable`."""
    kind = action.takes.get(name)
    if kind is not None:
        return descriptions.describe(kind, str(value))
    unit = metadata(get_type_hints(action.arguments, include_extras=True)[name]).get(UNIT)
    if unit == "cents" and isinstance(value, int):
        return format_cents(value)
    if unit in ("date", "time") and isinstance(value, str):
        return spoken_date(value) + (f" at {value[11:16]}" if unit == "time" else "")
    if unit == "text":
        return f'"{value}"'
    if isinstance(value, bool):
        words = ("off", "on") if name.endswith("_on") else ("no", "yes")
        return words[value]
    return str(value).replace("_", " ") if "enum" in action.parameters["properties"][name] else str(value)


def spoken_date(value: str) -> str:
    when = datetime.fromisoformat(value)
    return f"{when.day} {when:%B %Y}"


def _share_given(walk: Walk, text: str) -> float:
    values = [str(value) for call in walk.writes for value in _leaves(call.arguments)]
    return sum(value in text for value in values) / max(len(values), 1)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [leaf for part in value.values() for leaf in _leaves(part)]
    return [leaf for part in value for leaf in _leaves(part)] if isinstance(value, list | tuple) else [value]


def _as_sentence(text: str) -> str:
    """Returns a text with one full stop at its end."""
    return text if text.endswith((".", "!", "?", '."', '!"', '?"')) else f"{text}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
