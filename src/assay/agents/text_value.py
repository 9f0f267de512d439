"""Value of a state that is learnt from texts: a linear model over the words of an observation.

Words of the instruction are replaced by their place in it, so that "You carry: crown" in a task that asks for the crown
is the same feature as "You carry: lamp" where the lamp is asked for. A feature is such a word with the opening words of
its sentence. No world object is read here. The weights are a JSON file; reading one executes nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from assay.errors import UserError
from assay.limited_file import parse_file
from assay.records import digest_record

_WORD = re.compile(r"[A-Za-z0-9_@#$*.|+-]+")
_SENTENCE = re.compile(r"[.;\n]+")
_FILE_BYTES = 16 << 20
MOST_FEATURES = 200
"""Features of one text; the rest of a long text is ignored."""
MOST_WEIGHT = 1e6
"""Larger weights decide nothing more, and their sums could overflow."""


class TextValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of features; the score is the logistic of their sum."""

    bias: float
    repeated: float
    """Weight of the logarithm of how often the text was seen in this attempt."""
    weights: dict[str, float]

    @property
    def digest(self) -> str:
        """Returns the content address."""
        return digest_record(msgspec.to_builtins(self))

    def score(self, brief: str, text: str, seen: int) -> float:
        """Returns the estimated value, in (0, 1), of a state that shows `text` for the `seen`-th time."""
        total = self.bias + self.repeated * math.log(max(1, seen))
        total += sum(self.weights.get(feature, 0.0) for feature in text_features(brief, text))
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, total))))


def text_features(brief: str, text: str) -> set[str]:
    """Returns the features of an observation for the task that `brief` describes."""
    places = brief_places(brief)
    found = set[str]()
    for feature in _features(places, text):
        found.add(feature)
        if len(found) >= MOST_FEATURES:
            break
    return found


def brief_places(brief: str) -> dict[str, str]:
    """Returns the place of each word in the instruction's first sentence, at its first occurrence."""
    first = next((part for part in _SENTENCE.split(brief) if part.strip()), "")
    places: dict[str, str] = {}
    for number, word in enumerate(_WORD.findall(first)):
        places.setdefault(word.lower(), f"@{number}")
    return places


def _features(places: dict[str, str], text: str) -> Iterator[str]:
    for sentence in _SENTENCE.split(text):
        words = [word.lower() for word in _WORD.findall(sentence)]
        if not words:
            continue
        opening = " ".join(words[:2])
        yield opening
        for word in words[1:]:
            place = places.get(word)
            if place is not None:
                yield f"{opening}: {place}"
                if word not in words[:2]:
                    yield f"has {place}"


def read_text_value(path: Path) -> TextValue:
    """Reads the weights of a value. Raises `UserError` for a file that holds none."""
    decode = msgspec.json.Decoder(TextValue).decode
    hint = "value is progress, novelty or a file that `assay learn-value RUN --output FILE` wrote"
    found = parse_file(path, decode, holding="a learnt value", limit=_FILE_BYTES, hint=hint)
    if not all(abs(one) <= MOST_WEIGHT for one in (found.bias, found.repeated, *found.weights.values())):
        raise UserError(f"{path} contains a weight that is not a number, or exceeds {MOST_WEIGHT:,.0f}: learn it again")
    return found
