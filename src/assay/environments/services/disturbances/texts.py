"""Disturbances of texts: noise, and other words for acts and for what they are about.

Only running text is touched: texts whose wording no check judges, and what people write. Identifiers, numbers, quoted
and code words, names in the records, and the syntax of JSON stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from assay.environments.services.apps._words import words
from assay.environments.wrapping import NoiseKind, disturb_text, replace_words

from .interface import Answer, Call, Disturbance, DisturbanceOptions, Inner, leaves

_PLAIN_WORD: Final = re.compile(r"[a-z]{4,}[.,;:!?]?")
_KEPT: Final = frozenset(
    words(
        """
        after before both each either every except first from instead into last least less more most must neither never
        none not only please than unless with without
        """
    )
)
"""Words on which the meaning of a sentence hangs."""
_QUOTED: Final = re.compile(r"(`[^`]*`|\"[^\"]*\"|“[^”]*”|\n+|(?<=[.!?]) +)")
"""Quotations, and what separates sentences and lines."""
_VALUE_WORDS: Final = re.compile(r"[A-Za-z]+")


class TextDisturbance(Disturbance):
    """Base: applies `disturb` to running texts."""

    def prepare(self) -> None:
        self._plan_words = _words_of([call.arguments for call in self.world.plan])

    @cached_property
    def _record_words(self) -> frozenset[str]:
        """Lower-case words of the records' texts, other than free texts."""
        found: set[str] = set()
        for table in self.world.composition.tables:
            places = [at for at, c in enumerate(table.columns) if c.kind is str and not c.choices and c.unit != "text"]
            for row in self.world.database.rows(table) if places else ():
                for at in places:
                    found.update(word.lower() for word in _VALUE_WORDS.findall(row[at] or ""))
        return frozenset(found)

    @cached_property
    def _text_fields(self) -> frozenset[str]:
        """Names of columns that hold free text in every table that has them."""
        free: set[str] = set()
        other: set[str] = set()
        for table in self.world.composition.tables:
            for column in table.columns:
                (free if column.unit == "text" else other).add(column.name)
        return frozenset(free - other)

    def may_change(self, word: str) -> bool:
        """Returns whether a word is running text, and not a part of what the task is about."""
        bare = word.rstrip(".,;:!?").lower()
        return (
            _PLAIN_WORD.fullmatch(word) is not None
            and bare not in _KEPT
            and bare not in self._plan_words
            and bare not in self._record_words
        )

    def disturb(self, text: str, word: str) -> str:
        """Returns a running text as it is shown; `word` says where it stands, for the source of randomness."""
        raise NotImplementedError

    def call(self, call: Call, inner: Inner) -> Answer:
        answer = inner(call)
        if answer.code is not None:
            return answer
        action = self.world.composition.actions.get(call.name)
        if action is not None and action.returns_text:
            return answer._replace(text=self._disturb_parts(answer.text, str(call.number)))
        try:
            result = msgspec.json.decode(answer.text)
        except msgspec.DecodeError:
            return answer
        shown = _map_texts(result, self._text_fields, lambda text, at: self.disturb(text, f"{call.number}/{at}"))
        return answer if shown == result else answer._replace(text=msgspec.json.encode(shown).decode())

    def rewrite(self, text: str) -> str:
        return self._disturb_parts(text, "request")

    def _disturb_parts(self, text: str, word: str) -> str:
        """Disturbs the sentences of a text between its quotations; one of fewer than three words is a value."""
        if len(text.split()) < 3:
            return text
        parts = _QUOTED.split(text)
        return "".join(
            part if at % 2 or not part.strip() else self.disturb(part, f"{word}/{at}") for at, part in enumerate(parts)
        )


def _words_of(value: Any) -> frozenset[str]:
    texts = (text for _, text in leaves(value) if isinstance(text, str))
    return frozenset(word.lower() for text in texts for word in _VALUE_WORDS.findall(text))


def _map_texts(value: Any, fields: frozenset[str], change: Callable[[str, int], str]) -> Any:
    """Returns JSON data with its free texts changed; they are numbered in their order."""
    numbers: Iterator[int] = iter(range(1 << 30))

    def walk(part: Any, field: str) -> Any:
        if isinstance(part, dict):
            return {name: walk(inner, name) for name, inner in part.items()}
        if isinstance(part, list):
            return [walk(inner, field) for inner in part]
        return change(part, next(numbers)) if isinstance(part, str) and field in fields else part

    return walk(value, "")


class _NoiseOptions(DisturbanceOptions, frozen=True):
    how: NoiseKind = "any"
    """Kind of noise: swapped letters, a missing word, an unrelated sentence, or a random one of these."""


class Noise(TextDisturbance):
    """Texts with typos, missing words or unrelated sentences. `rate` is the share of disturbed texts."""

    kind = "noise"
    Options = _NoiseOptions

    def disturb(self, text: str, word: str) -> str:
        draw = self.draw_for(word)
        if not text or draw.random() >= self.options.rate:
            return text
        self.state["texts"] = self.state.get("texts", 0) + 1
        return disturb_text(text, self.options.how, draw, self._is_noisy)

    def _is_noisy(self, word: str) -> bool:
        return self.may_change(word) and word.rstrip(".,;:!?") not in self._wish_words

    @cached_property
    def _wish_words(self) -> frozenset[str]:
        """Words by which people ask for an action: without them it is not known what is wanted."""
        actions = self.world.composition.actions.values()
        return frozenset(word for action in actions for word in _VALUE_WORDS.findall(action.wish))

    def facts(self) -> dict[str, Any]:
        return {"texts": self.state.get("texts", 0)}


class _ParaphraseOptions(DisturbanceOptions, frozen=True):
    rate: float = 1.0
    """Share of the words that have other words which are replaced; fixed for a world."""
    part: Literal["acts", "objects", "both"] = "both"
    """Words that are replaced: for acts (`cancel`), for what they are about (`order`), or both."""
    level: Annotated[int, Meta(ge=1, le=3)] = 3
    """Most difficult words that are used: 1 near synonyms, 2 distant ones, 3 descriptions."""


class Paraphrase(TextDisturbance):
    """Other words for acts and objects, in the request and in texts.

    `rate` is the share of words that are replaced. `state` counts the replaced words of acts and objects, and their
    difficulty: the level of each word, where that of an act counts twice, because the act decides what is done.
    """

    kind = "paraphrase"
    Options = _ParaphraseOptions

    def disturb(self, text: str, word: str) -> str:
        for part, synonyms in (("acts", _ACTS), ("objects", _OBJECTS)):
            if self.options.part in (part, "both"):
                text = replace_words(text, synonyms, self._chooser(part))
        return text

    def _chooser(self, part: str) -> Callable[[str, Sequence[str]], str | None]:
        def choose(word: str, others: Sequence[str]) -> str | None:
            draw = self.draw_for(word)
            kept = word in self._plan_words or word in self._record_words
            if kept or draw.random() >= self.options.rate:
                return None
            level = draw.randint(1, self.options.level)
            self.state[part] = self.state.get(part, 0) + 1
            weight = 2 if part == "acts" else 1
            self.state["difficulty"] = self.state.get("difficulty", 0) + weight * level
            return others[level - 1]

        return choose

    def facts(self) -> dict[str, Any]:
        return {name: self.state.get(name, 0) for name in ("acts", "objects", "difficulty")}


_ACTS: Final[Mapping[str, Sequence[str]]] = {
    "add": ("put in", "include", "see to it that there is also"),
    "archive": ("file away", "store away", "move out of the way and keep"),
    "assign": ("hand over", "give", "make the responsibility of somebody:"),
    "book": ("reserve", "arrange", "secure"),
    "cancel": ("call off", "revoke", "make sure nothing comes of"),
    "change": ("alter", "adjust", "make different"),
    "close": ("shut", "finish", "declare done"),
    "create": ("set up", "make", "bring into being"),
    "delete": ("remove", "erase", "get rid of"),
    "forward": ("pass on", "relay", "let somebody else have"),
    "move": ("shift", "transfer", "find another place for"),
    "remove": ("take out", "drop", "get rid of"),
    "reply": ("respond", "answer", "write back"),
    "send": ("dispatch", "transmit", "let have"),
    "update": ("revise", "amend", "bring up to date"),
}
_OBJECTS: Final[Mapping[str, Sequence[str]]] = {
    "appointment": ("meeting", "engagement", "agreed time"),
    "booking": ("reservation", "arrangement", "seat that was secured"),
    "comment": ("remark", "note", "something said about it"),
    "draft": ("unsent message", "unfinished message", "message that has not gone out"),
    "event": ("entry", "date", "thing in the calendar"),
    "email": ("mail", "message", "letter on the screen"),
    "flight": ("connection", "plane", "journey by air"),
    "folder": ("directory", "compartment", "place for messages"),
    "issue": ("ticket", "problem report", "thing that was reported"),
    "label": ("tag", "marker", "word stuck on it"),
    "order": ("purchase", "thing bought", "what was asked for in the shop"),
    "passenger": ("traveller", "person on board", "one of those who fly"),
    "project": ("undertaking", "piece of work", "body of work"),
    "reminder": ("alert", "prompt", "thing that is not to be forgotten"),
    "server": ("machine", "host", "box that runs it"),
}
