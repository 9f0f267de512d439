#!/bin/sh
cat > /workspace/bounds.py <<'PYTHON'
"""Keeps values within bounds."""


def clamp(value: int, low: int, high: int) -> int:
    """The value, or the bound that it passes."""
    return max(low, min(value, high))
PYTHON
