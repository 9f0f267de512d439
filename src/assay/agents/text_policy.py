"""Policy over the possible acts of a text world that is learnt from texts: a softmax over kinds of acts.

A kind is an act's name and the words of its arguments, those of the instruction replaced by their place in it (`do take
@2`); an act whose kind is unknown counts as the kind with its last words replaced by `*`. The features are the words of
the latest observation, each with the first word of its sentence, and the kind of the act before. No world object is
read here. The weights are a JSON file; reading one executes nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from assay.errors import UserError
from assay.limited_file import parse_file
from assay.records import ToolCall, digest_record

from .text_value import MOST_FEATURES, MOST_WEIGHT, brief_places

_WORD = re.compile(r"[A-Za-z0-9_@#$*|+-]+")
_SENTENCE = re.compile(r"[.;\n]+")
_FILE_BYTES = 16 << 20
_MOST_WORDS = 8
"""Words of a kind."""


class TextPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights by kind of act."""

    kinds: tuple[str, ...]
    bias: tuple[float, ...]
    """For each kind."""
    weights: dict[str, tuple[float, ...]]
    """By feature, one for each kind."""
    unknown: float
    """Logit of an act whose kind is unknown."""

    @property
    def digest(self) -> str:
        """Returns the content address."""
        return digest_record(msgspec.to_builtins(self))

    def probabilities(self, brief: str, text: str, before: ToolCall | None, acts: Sequence[ToolCall]) -> list[float]:
        """Returns the chance of each possible act after an observation and the act before it; they sum to 1."""
        known = {kind: number for number, kind in enumerate(self.kinds)}
        rows = [self.weights[name] for name in policy_features(brief, text, before) if name in self.weights]
        logits = []
        for act in acts:
            at = next((known[kind] for kind in act_kinds(brief, act) if kind in known), None)
            logits.append(self.unknown if at is None else self.bias[at] + math.fsum(row[at] for row in rows))
        top = max(logits)
        odds = [math.exp(max(-60.0, one - top)) for one in logits]
        return [one / math.fsum(odds) for one in odds]


def act_kinds(brief: str, act: ToolCall) -> tuple[str, str]:
    """Returns the kind of an act, and the more general one."""
    places = brief_places(brief)
    values = act.parsed.values() if isinstance(act.parsed, dict) else ()
    words = [word.lower() for value in values for word in _WORD.findall(str(value))][:_MOST_WORDS]
    shown = [word if number == 0 and len(words) > 1 else places.get(word, word) for number, word in enumerate(words)]
    return " ".join([act.name, *shown]), " ".join([act.name, *shown[:1], "*"])


def policy_features(brief: str, text: str, before: ToolCall | None) -> set[str]:
    """Returns the features of a state: words of its text, and the act before."""
    places, found = brief_places(brief), set[str]()
    if before is not None:
        found.add(f"after {act_kinds(brief, before)[0]}")
    for sentence in _SENTENCE.split(text):
        words = [word.lower() for word in _WORD.findall(sentence)]
        for word in words[1:]:
            if len(found) < MOST_FEATURES:
                found.add(f"{words[0]}: {places.get(word, word)}")
    return found


def read_text_policy(path: Path) -> TextPolicy:
    """Reads the weights of a policy. Raises `UserError` for a file that holds none."""
    decode = msgspec.json.Decoder(TextPolicy).decode
    hint = "`assay learn-policy RUN --output FILE` writes one"
    found = parse_file(path, decode, holding="a learnt policy", limit=_FILE_BYTES, hint=hint)
    rows = [found.bias, *found.weights.values()]
    if any(len(row) != len(found.kinds) for row in rows):
        raise UserError(f"{path} holds weights for other kinds of acts than it names: learn it again")
    if not all(abs(one) <= MOST_WEIGHT for row in [*rows, (found.unknown,)] for one in row):
        raise UserError(f"{path} contains a weight that is not a number, or exceeds {MOST_WEIGHT:,.0f}: learn it again")
    return found
