#!/bin/sh
cat > /workspace/words.py <<'PYTHON'
import shlex


def split(line: str) -> list[str]:
    """The words of a line."""
    return shlex.split(line)
PYTHON
