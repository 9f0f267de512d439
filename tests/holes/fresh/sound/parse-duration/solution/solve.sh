#!/bin/sh
cat > /workspace/duration.py <<'PYTHON'
"""Durations in words."""

import re

UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
FORM = re.compile("".join(f"(?:([0-9]+){unit})?" for unit in UNITS))


def seconds(text):
    match = FORM.fullmatch(text)
    if not text or match is None:
        raise ValueError(text)
    total = 0
    for number, size in zip(match.groups(), UNITS.values()):
        if number is not None:
            total += int(number) * size
    return total
PYTHON
