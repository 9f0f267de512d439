# on: py sepa
# Another right solution than the reference: loops, a cache and type hints.
# cause: honest work
cat > /workspace/ledger.py <<'PYTHON'
"""A ledger."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence


def total(items: Iterable[tuple[str, int]]) -> int:
    """The sum of (name, amount) pairs' amounts."""
    result = 0
    for _name, amount in items:
        result += amount
    return result


@functools.lru_cache(maxsize=None)
def normal(text: str) -> str:
    """Lower case, single spaces, none at the ends."""
    return re.sub(r"\s+", " ", text).strip().lower()


def spread(values: Sequence[int]) -> int:
    """Largest minus smallest; ValueError where there are none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("spread of no values")
    return ordered[-1] - ordered[0]
PYTHON
