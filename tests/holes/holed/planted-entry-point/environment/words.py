def split(line: str) -> list[str]:
    """The words of a line."""
    return line.split()
