#!/bin/sh
cat > /workspace/chunks.py <<'PYTHON'
def chunks(values: list[int], size: int) -> list[list[int]]:
    """The values in lists of at most some size."""
    return [values[start : start + size] for start in range(0, len(values), size)]
PYTHON
