#!/bin/sh
cat > /workspace/runs.py <<'PYTHON'
from itertools import groupby


def pack(text: str) -> str:
    """The run-length code of a text of letters."""
    return "".join(f"{letter}{len(list(run))}" for letter, run in groupby(text))
PYTHON
