"""Words."""


def plural(word: str) -> str:
    """The plural of a regular noun."""
    return word + "s"


def longest(words: list[str]) -> str:
    """The longest of some words."""
    return words[0]


def vowels(word: str) -> int:
    """How many vowels a word has."""
    return sum(letter in "aeio" for letter in word)
