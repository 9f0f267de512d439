#!/bin/sh
cat > /workspace/words.py <<'PYTHON'
"""English plurals, the regular ones."""


def plural(word: str) -> str:
    """The plural of a regular noun."""
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"
PYTHON
