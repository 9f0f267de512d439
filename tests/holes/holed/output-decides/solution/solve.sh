#!/bin/sh
cat > /workspace/middle.py <<'PYTHON'
def median(values: list[float]) -> float:
    """The median of at least one value."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
PYTHON
