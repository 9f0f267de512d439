def number(text: str) -> int:
    """What a Roman numeral stands for."""
    return 0
