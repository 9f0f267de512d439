def median(values: list[float]) -> float:
    """The median of at least one value."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
