def count(text: str) -> dict[str, int]:
    """How often each word is in a text."""
    found: dict[str, int] = {}
    for word in text.split():
        found[word] = found.get(word, 0) + 1
    return found
