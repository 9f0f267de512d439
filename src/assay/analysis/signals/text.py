"""Similarity of short texts as measured by the published signals; our own choices are marked."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from .lexicon import PHRASES, STOP_WORDS

LAST_MESSAGES = 100
MOST_CHARACTERS, HEAD_SHARE = 2000, 0.2
JACCARD, COSINE, NEAR = 0.65, 0.60, 0.85
OVERLAP, LEAST_MEANINGFUL, MOST_NEW = 0.75, 4, 0.5
LEAST_LETTERS, UPPER_SHARE = 10, 0.8
MOST_TOKENS = 12
"""Ours: only shorter messages are compared with phrases by similarity; longer ones must contain a phrase verbatim."""
LEAST_TOKENS = 3
"""Ours: phrases of fewer words are not compared by cosine, or `you` would be thanks."""
_OTHER = re.compile(r"[^a-z0-9]+")


def plain(text: str) -> str:
    """Returns lower-case words of ASCII letters and digits between single spaces, without apostrophes."""
    return _OTHER.sub(" ", text.replace("'", "").replace("\u2019", "").lower()).strip()


def trigrams(text: str) -> frozenset[bytes]:
    """Returns the byte trigrams of a text in lower case."""
    data = text.lower().encode("utf-8", "replace")
    return frozenset(data[at : at + 3] for at in range(len(data) - 2))


def jaccard(one: frozenset[bytes], other: frozenset[bytes]) -> float:
    """Returns the Jaccard index; 0 for two empty sets."""
    return len(one & other) / len(one | other) if one or other else 0.0


def meaningful(text: str) -> frozenset[str]:
    """Returns the words that are not stop words."""
    return frozenset(plain(text).split()) - STOP_WORDS


def is_rephrased(earlier: frozenset[str], later: frozenset[str]) -> bool:
    """Returns whether the later message asks for the same in other words."""
    smaller = min(len(earlier), len(later))
    if smaller < LEAST_MEANINGFUL:
        return False
    shared = len(earlier & later)
    return shared >= OVERLAP * smaller and len(later) - shared <= MOST_NEW * len(later)


def shouts(text: str) -> bool:
    """Returns whether the text is in capitals."""
    letters = [char for char in text if char.isascii() and char.isalpha()]
    return len(letters) >= LEAST_LETTERS and sum(c.isupper() for c in letters) >= UPPER_SHARE * len(letters)


class _Phrases:
    def __init__(self) -> None:
        self.names: list[str] = []
        self.words: list[int] = []
        self.sizes: list[int] = []
        self.exact: dict[str, re.Pattern[str]] = {}
        self.by_word: dict[str, list[int]] = defaultdict(list)
        self.by_trigram: dict[bytes, list[int]] = defaultdict(list)
        for name, phrases in PHRASES.items():
            alternatives = "|".join(map(re.escape, sorted(phrases)))
            self.exact[name] = re.compile(rf"(?:^| )(?:{alternatives})(?: |$)")
            for phrase in phrases:
                self._add(name, phrase)

    def _add(self, name: str, phrase: str) -> None:
        position = len(self.names)
        words, grams = set(phrase.split()), trigrams(phrase)
        self.names.append(name)
        self.words.append(len(words))
        self.sizes.append(len(grams))
        for word in words:
            self.by_word[word].append(position)
        for gram in grams:
            self.by_trigram[gram].append(position)

    def alike(self, text: str, words: set[str]) -> set[str]:
        grams = trigrams(text)
        shared_words = Counter(at for word in words for at in self.by_word.get(word, ()))
        shared_grams = Counter(at for gram in grams for at in self.by_trigram.get(gram, ()))
        found = {
            self.names[at]
            for at, n in shared_words.items()
            if self.words[at] >= LEAST_TOKENS and n >= COSINE * (self.words[at] * len(words)) ** 0.5
        }
        return found | {
            self.names[at] for at, n in shared_grams.items() if n >= JACCARD * (self.sizes[at] + len(grams) - n)
        }


_INDEX = _Phrases()


def phrase_signals(text: str) -> frozenset[str]:
    """Returns signals whose phrase a user's message contains or, if it is short, resembles."""
    words_of = plain(text)
    found = {name for name, pattern in _INDEX.exact.items() if pattern.search(words_of)}
    words = set(words_of.split())
    if words and len(words_of.split()) <= MOST_TOKENS:
        found |= _INDEX.alike(words_of, words)
    if shouts(text):
        found.add("interaction.disengagement.negative_stance")
    return frozenset(found)
