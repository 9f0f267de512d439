def valid(text: str) -> bool:
    """Whether ten characters are an ISBN."""
    if len(text) != 10 or not text.isdigit():
        return False
    return sum((10 - place) * int(digit) for place, digit in enumerate(text)) % 11 == 0
