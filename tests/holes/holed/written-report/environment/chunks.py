def chunks(values: list[int], size: int) -> list[list[int]]:
    """The values in lists of at most some size."""
    return [values[i * size : (i + 1) * size] for i in range(len(values) // size)]
