"""English plurals, the regular ones."""


def plural(word: str) -> str:
    """The plural of a regular noun."""
    return word + "s"
