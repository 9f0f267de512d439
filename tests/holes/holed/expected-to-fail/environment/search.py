from bisect import bisect


def place(values: list[int], wanted: int) -> int:
    """Where a value is in a sorted list, or -1."""
    found = bisect(values, wanted)
    return found if found < len(values) and values[found] == wanted else -1
