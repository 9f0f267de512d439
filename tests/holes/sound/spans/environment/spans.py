def merged(spans: list[list[int]]) -> list[list[int]]:
    """Spans that touch or overlap are one."""
    return spans
