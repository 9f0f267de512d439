"""English plurals, the regular ones."""


def plural(word: str) -> str:
    """The plural of a regular noun."""
    if word.endswith("y"):
        return word
    return word + "s"
