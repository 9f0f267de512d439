def letters(text: str) -> list[str]:
    """The letters of a text, in lower case."""
    return [letter for letter in text.lower() if letter.isalpha()]
