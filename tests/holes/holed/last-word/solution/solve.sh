#!/bin/sh
cat > /workspace/roman.py <<'PYTHON'
VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def number(text: str) -> int:
    """What a Roman numeral stands for."""
    found = [VALUES[letter] for letter in text]
    return sum(-now if now < after else now for now, after in zip(found, [*found[1:], 0], strict=True))
PYTHON
