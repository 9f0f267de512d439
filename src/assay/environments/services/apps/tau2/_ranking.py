"""Ranks documents by BM25 (Robertson et al., TREC-3, 1994), as the package `rank_bm25` computes it.

Words are parts between white space, in lower case. A word that is in more than half of the documents has a quarter of
the average weight in place of a negative one.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from typing import Final, NamedTuple

_SATURATION: Final = 1.5
_LENGTH_WEIGHT: Final = 0.75
_LEAST_WEIGHT: Final = 0.25


class _Index(NamedTuple):
    """Word counts of all texts, and the weight of each word."""

    counts: tuple[Counter[str], ...]
    lengths: tuple[int, ...]
    weights: dict[str, float]


def rank_texts(query: str, texts: tuple[str, ...]) -> list[tuple[int, float]]:
    """Returns the positions of all texts with their scores, the best first; equal ones stay in order."""
    index = _index(texts)
    average = sum(index.lengths) / max(1, len(texts))
    words = query.lower().split()
    scored = []
    for at, (counts, length) in enumerate(zip(index.counts, index.lengths, strict=True)):
        norm = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * length / average) if average else 1.0
        gains = (
            index.weights[word] * counts[word] * (_SATURATION + 1) / (counts[word] + norm)
            for word in words
            if word in counts
        )
        scored.append((at, sum(gains)))
    return sorted(scored, key=lambda pair: -pair[1])


@lru_cache(maxsize=4)
def _index(texts: tuple[str, ...]) -> _Index:
    counts = tuple(Counter(text.lower().split()) for text in texts)
    spread = Counter(word for words in counts for word in words)
    weights = {word: math.log(len(texts) - n + 0.5) - math.log(n + 0.5) for word, n in spread.items()}
    least = _LEAST_WEIGHT * sum(weights.values()) / max(1, len(weights))
    weights = {word: weight if weight >= 0 else least for word, weight in weights.items()}
    return _Index(counts, tuple(words.total() for words in counts), weights)
