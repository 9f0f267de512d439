#!/bin/sh
cat > /workspace/words.py <<'PYTHON'
"""Words."""


def plural(word: str) -> str:
    """The plural of a regular noun."""
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def longest(words: list[str]) -> str:
    """The longest of some words."""
    return max(words, key=len)


def vowels(word: str) -> int:
    """How many vowels a word has."""
    return sum(letter in "aeiou" for letter in word)
PYTHON
