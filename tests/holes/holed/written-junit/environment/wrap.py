def wrap(words: list[str], width: int) -> list[str]:
    """Lines of at most `width` characters."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(word) + 1 < width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines
