"""Comparison of decimal numbers that an agent wrote, whatever their size.

The default context of `decimal` raises for exponents beyond a million; an agent's number must never be an error.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Final

_UNBOUNDED: Final = Context(prec=28, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def is_within(one: Decimal, two: Decimal, tolerance: Decimal) -> bool:
    """Returns whether two finite numbers differ by at most `tolerance`."""
    return one == two or bool(_UNBOUNDED.abs(_UNBOUNDED.subtract(one, two)) <= tolerance)
