"""Finds where a person left their script: a pure function of the script and the turns of the conversation.

A sentence of the script counts as said where all its addresses, identifiers, dates and numbers occur; without any,
where what it says of its subject occurs. A fact counts as asked for where a question has one of its cues, or asks for
details of any kind. Repeating a value that the agent or a tool of the person's gave first discloses nothing.

Not covered: a fact told in other words where it has no address, identifier, date or number; an invented name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from .act_requests import find_requested_acts
from .users import Fact, UserScript, UserState, asks_for, begin, questions_of, reply, reports_completion

DeviationKind = Literal[
    "withheld", "early", "contradicted", "invented", "change left out", "left early", "unplanned act", "silent"
]
"""`withheld`: told what is never told. `early`: told before it was asked for, or at a turn before a change of mind.
`contradicted`: gave another value for a fact. `invented`: gave a value of a fact's kind that is in no fact."""

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = rf"(?P<month>{'|'.join(_MONTHS)})[a-z]{{0,6}}\.?"
_DATES: Final = (
    re.compile(r"\b(?P<year>\d{4})-(?P<number>\d{2})-(?P<day>\d{2})(?!\d)"),
    re.compile(rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH},?\s+(?P<year>\d{{4}})\b"),
    re.compile(rf"\b{_MONTH}\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<year>\d{{4}})\b"),
)
# Bounded, and begun at the beginnings of words alone: an answer is hostile text.
_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_MONEY: Final = re.compile(
    r"[$€£]\s?(?P<amount>\d[\d,]{0,20}(?:\.\d{1,4})?)|(?<![\w.,])(?P<plain>\d[\d,]{0,20}\.\d{2})(?![\w.])"
)
_TIME: Final = re.compile(r"\b\d{1,2}:\d{2}\b")
_IDENTIFIER: Final = re.compile(
    r"(?<![\w-])#?(?=[\w-]{0,63}[a-z])(?=[\w-]{0,63}\d)[a-z0-9]{1,64}(?:[-_][a-z0-9]{1,64}){0,8}"
)
_ORDINAL: Final = re.compile(r"\d+(?:st|nd|rd|th|am|pm)")
_NUMBER: Final = re.compile(r"\d[\d ,().-]{0,40}\d|\d")
_LEAST_DIGITS: Final = 3
"""A shorter number is an everyday word."""
_LEAST_IDENTIFIER: Final = 4
_SUBJECT: Final = re.compile(r"^(?P<subject>.*?\b(?:is|are|was|were)\b(?: (?:called|named|about))?) (?P<rest>.+)$")
_CONTENT: Final = re.compile(
    r"\b(?!(?:the|and|you|are|was|were|its|that|this|there|what|which|here|all|not)\b)[a-z]{3,}"
)
_NO_VALUE: Final = re.compile(r"(?:not|what|as|just|still|already|something|unknown)\b")
_GENERAL: Final = re.compile(
    r"\b(details?|information|particulars|anything else|everything|tell me (?:more|about)|what exactly)\b"
)
_LEAST_PREDICATE: Final = 3
_OVERLAP: Final = 0.6
"""Share of the longer words of a change of mind that must occur for it to count as said."""
_QUOTED: Final = 300


class DialogueTurn(NamedTuple):
    """A message of the agent, and what the person did with it."""

    question: str
    answer: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Actions that the person called with tools of their own, with the arguments."""
    results: tuple[str, ...] = ()
    """Results of these calls."""
    has_left: bool = False


class Deviation(msgspec.Struct, frozen=True):
    """A place at which a person left their script."""

    kind: DeviationKind
    turn: int
    """From 1: number of the person's answer."""
    subject: str
    """Name of the fact, text of the change of mind, or the value."""
    quote: str
    """The beginning of the answer."""


class _Value(NamedTuple):
    kind: str
    text: str


def find_deviations(script: UserScript, turns: Sequence[DialogueTurn]) -> tuple[Deviation, ...]:
    """Returns where the person left the script, in the order of the turns; empty for a faithful person."""
    found: list[Deviation] = []
    judge = _Judge(script)
    for number, turn in enumerate(turns, 1):
        for kind, subject in judge.judge(number, turn):
            deviation = Deviation(kind, number, subject, turn.answer[:_QUOTED])
            if deviation not in found:
                found.append(deviation)
    return tuple(found)


def advance(script: UserScript, state: UserState, turn: DialogueTurn) -> UserState:
    """Returns the state of a conversation after a turn whose answer is given: which facts were told, and when."""
    number = state.turn + 1
    questions = questions_of(turn.question)
    asked = dict(state.asked)
    for fact in script.facts:
        if _is_asked(fact, questions):
            asked[fact.name] = asked.get(fact.name, 0) + 1
    told = [fact.name for fact in script.facts if is_conveyed(fact.text, turn.answer)]
    fresh = [name for name in told if name not in state.told]
    wrong = [fact.name for fact in script.facts if fact.wrong and is_conveyed(fact.wrong, turn.answer)]
    mistaken = [name for name in dict.fromkeys((*state.mistaken, *wrong)) if name not in (*state.told, *told)]
    return replace(
        state,
        turn=number,
        told=(*state.told, *fresh),
        mistaken=tuple(mistaken),
        asked=asked,
        evidence=state.evidence | dict.fromkeys(fresh, number),
        left=state.left or turn.has_left,
    )


def is_conveyed(sentence: str, text: str) -> bool:
    """Returns whether a text says what a sentence of a script says."""
    return _Corpus((text,)).conveys(sentence)


class _Corpus:
    """Texts, and what they hold together."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.values: set[_Value] = set()
        self._words: set[str] = set()
        self._texts: list[str] = []
        self.add(texts)

    def add(self, texts: Iterable[str]) -> None:
        for text in texts:
            plain = _plain(text)
            self.values |= _values(text)
            self._words.update(plain.split())
            self._texts.append(f" {plain} ")

    def conveys(self, sentence: str) -> bool:
        """Returns whether all values of a sentence occur, or what it says of its subject where it has none."""
        values = _values(sentence)
        if values:
            return values <= self.values
        plain = _plain(sentence)
        found = _SUBJECT.match(plain)
        rest = found["rest"] if found is not None and len(found["rest"]) >= _LEAST_PREDICATE else plain
        return any(f" {rest} " in text for text in self._texts)

    def says(self, sentence: str) -> bool:
        """Returns whether a sentence is conveyed, or its values and most of its longer words occur."""
        words = set(re.findall(r"[a-z]{4,}", _plain(sentence)))
        is_paraphrased = bool(words) and len(words & self._words) >= _OVERLAP * len(words)
        return self.conveys(sentence) or (is_paraphrased and _values(sentence) <= self.values)


class _Judge:
    """Judges turn after turn against one script."""

    def __init__(self, script: UserScript) -> None:
        self._script = script
        self._asked: dict[str, int] = {}
        self._heard = _Corpus(())
        """Messages of the agent, and results of the person's own tools."""
        self._told: set[str] = {fact.name for fact in script.facts if fact.disclosure == "open"}
        """Facts that were told rightly."""
        self._state, _ = begin(script)
        """State of the rule-driven person in the same conversation."""
        self._is_done = False
        texts = [script.goal, *(change.text for change in script.changes)]
        texts += [text for fact in script.facts for text in (fact.text, fact.wrong)]
        texts += [str(value) for act in script.acts for value in act.arguments.values()]
        self._scripted = _Corpus(texts)
        self._endings = _endings(texts)

    def judge(self, number: int, turn: DialogueTurn) -> Iterator[tuple[DeviationKind, str]]:
        """Yields the deviations of the next turn."""
        script, questions = self._script, questions_of(turn.question)
        asked = [fact for fact in script.facts if _is_asked(fact, questions)]
        for fact in asked:
            self._asked[fact.name] = self._asked.get(fact.name, 0) + 1
        self._heard.add((turn.question, *turn.results))
        answer = _Corpus((turn.answer,))
        if not turn.answer.strip() and not turn.has_left:
            yield "silent", ""
        yield from self._disclosures(number, answer)
        yield from self._foreign_values(answer, asked)
        yield from self._contradictions(turn.answer)
        for change in script.changes:
            if change.turn == number and not turn.has_left and not answer.says(change.text):
                yield "change left out", change.text
        requested = [script.acts[at] for at in find_requested_acts([act.cues for act in script.acts], turn.question)]
        for action, arguments in turn.calls:
            acts = [act for act in script.acts if (act.action, act.arguments) == (action, dict(arguments))]
            is_requested = any(act in requested or asks_for(act.cues, questions) for act in acts)
            if not is_requested:
                yield "unplanned act", action
        self._is_done = self._is_done or reports_completion(turn.question)
        self._state, _, _ = reply(script, self._state, turn.question)
        if turn.has_left and not (self._is_done or self._state.left):
            yield "left early", ""
        self._told |= {fact.name for fact in script.facts if answer.conveys(fact.text)}

    def _disclosures(self, number: int, answer: _Corpus) -> Iterator[tuple[DeviationKind, str]]:
        """Yields what may not be said at a turn, or not yet."""
        script = self._script
        texts = [script.goal, *(change.text for change in script.changes if change.turn <= number)]
        texts += [fact.text for fact in script.facts if self._may_tell(fact, number)]
        mistakes = {f.name: f.wrong for f in script.facts if f.wrong and f.name in self._asked.keys() - self._told}
        allowed = _Corpus((*texts, *mistakes.values()))
        for fact in script.facts:
            if answer.conveys(fact.text) and not (allowed.conveys(fact.text) or self._heard.conveys(fact.text)):
                yield "withheld" if fact.disclosure == "withheld" else "early", fact.name
            is_mistaken = fact.wrong != "" and answer.conveys(fact.wrong) and fact.name not in mistakes
            if is_mistaken and not (allowed.conveys(fact.wrong) or self._heard.conveys(fact.wrong)):
                yield "contradicted" if fact.name in self._told else "early", fact.name
        for change in script.changes:
            is_early = change.turn > number and answer.says(change.text)
            if is_early and not (allowed.says(change.text) or self._heard.says(change.text)):
                yield "early", change.text

    def _may_tell(self, fact: Fact, number: int) -> bool:
        asked = self._asked.get(fact.name, 0)
        if fact.disclosure in ("open", "withheld"):
            return fact.disclosure == "open"
        if fact.wrong or fact.disclosure == "insisted":
            is_noticed = bool(fact.wrong) and fact.corrects_at is not None and fact.corrects_at <= number
            return asked > (0 if is_noticed else 1)
        return asked > 0

    def _foreign_values(self, answer: _Corpus, asked: Sequence[Fact]) -> Iterator[tuple[DeviationKind, str]]:
        """Yields values that are in no part of the script, nor in what the person has heard."""
        facts = self._script.facts
        kinds = {value.kind for fact in facts for value in _values(f"{fact.text}\n{fact.wrong}")}
        for value in sorted(answer.values - self._scripted.values - self._heard.values):
            if value.kind in kinds:
                about = [fact.name for fact in asked if any(v.kind == value.kind for v in _values(fact.text))]
                yield ("contradicted", about[0]) if about else ("invented", value.text)

    def _contradictions(self, answer: str) -> Iterator[tuple[DeviationKind, str]]:
        """Yields subjects of which the answer says something that the script does not."""
        plain = _plain(answer)
        for subject, endings in self._endings.items():
            for found in re.finditer(rf"(?<!\w){re.escape(subject)} (?=(?P<rest>.+))", plain):
                rest = f"{found['rest']} "
                if not (_NO_VALUE.match(rest) or any(rest.startswith(f"{ending} ") for ending in endings)):
                    facts = (fact.name for fact in self._script.facts if _plain(fact.text).startswith(subject))
                    yield "contradicted", next(facts, subject)


def _is_asked(fact: Fact, questions: Sequence[str]) -> bool:
    return asks_for(fact.cues, questions) or any(_GENERAL.search(question) for question in questions)


def _endings(texts: Iterable[str]) -> dict[str, list[str]]:
    """Returns what the sentences of a script say of each subject, such as `the order is`."""
    found: dict[str, list[str]] = {}
    for text in texts:
        match = _SUBJECT.match(_plain(text))
        if match is not None and _CONTENT.search(match["subject"]):
            found.setdefault(match["subject"], []).append(match["rest"])
    return found


def _plain(text: str) -> str:
    """Returns a text in lower case, without punctuation at the edges of its words."""
    words = (word.strip(".,;:!?\"'()“”") for word in text.lower().split())
    return " ".join(word for word in words if word)


def _values(text: str) -> frozenset[_Value]:
    """Returns the addresses, dates, amounts, times, identifiers and longer numbers of a text."""
    found: set[_Value] = set()
    rest = text.lower()
    for pattern in _DATES:
        for match in pattern.finditer(rest):
            day = _read_date(match)
            if day is not None:
                found.add(_Value("date", day))
        rest = pattern.sub(" ", rest)
    found.update(_Value("address", match[0]) for match in _EMAIL.finditer(rest))
    rest = _EMAIL.sub(" ", rest)
    found.update(
        _Value("amount", f"{float((match['amount'] or match['plain']).replace(',', '')):.2f}")
        for match in _MONEY.finditer(rest)
    )
    rest = _MONEY.sub(" ", rest)
    found.update(_Value("time", match[0].zfill(5)) for match in _TIME.finditer(rest))
    rest = _TIME.sub(" ", rest)
    for match in _IDENTIFIER.finditer(rest):
        if len(match[0]) >= _LEAST_IDENTIFIER and _ORDINAL.fullmatch(match[0]) is None:
            shape = re.sub(r"\d+", "9", re.sub(r"[a-z]+", "a", match[0]))
            found.add(_Value(f"identifier {shape}", match[0]))
    rest = _IDENTIFIER.sub(" ", rest)
    for match in _NUMBER.finditer(rest):
        digits = re.sub(r"\D", "", match[0])
        if len(digits) >= _LEAST_DIGITS:
            found.add(_Value(f"number of {len(digits)} digits", digits))
    return frozenset(found)


def _read_date(match: re.Match[str]) -> str | None:
    """Returns the date in ISO form; None if it does not exist."""
    parts = match.groupdict()
    month = int(parts["number"]) if parts.get("number") else _MONTHS.index(parts["month"]) + 1
    try:
        return date(int(parts["year"]), month, int(parts["day"])).isoformat()
    except ValueError:
        return None
