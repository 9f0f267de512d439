"""The grades of separation between the process that decides and the code that it judges.

A grade is built and then recorded by whoever started the deciding process; observation afterwards can only lower it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from assay.records import Separation

__all__ = ["SEPARATIONS", "meets", "weakest"]

SEPARATIONS: tuple[Separation, ...] = get_args(Separation)
"""All grades, strongest first; `unknown` is the weakest: what was not observed is never taken for more."""


def weakest(grades: Iterable[Separation]) -> Separation:
    """Returns the weakest of some grades; `unknown` for none."""
    return max(grades, key=SEPARATIONS.index, default="unknown")


def meets(grade: Separation, required: Separation) -> bool:
    """Returns whether a grade is at least as strong as what is required."""
    return SEPARATIONS.index(grade) <= SEPARATIONS.index(required)
