"""Primitives of attacks by dimension: place, reach, select, rewrite, trigger, hide."""

from . import hide, place, program, reach, rewrite, trigger
from .registry import DIMENSIONS, Dimension, Family, Primitive, primitive, primitives_of

__all__ = [
    "DIMENSIONS",
    "Dimension",
    "Family",
    "Primitive",
    "hide",
    "place",
    "primitive",
    "primitives_of",
    "program",
    "reach",
    "rewrite",
    "trigger",
]
