"""Keeps values within bounds."""


def clamp(value: int, low: int, high: int) -> int:
    """The value, or the bound that it passes."""
    if value < low:
        return low
    return value
