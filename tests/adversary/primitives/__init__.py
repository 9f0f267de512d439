"""Primitives of attacks by dimension."""

from . import edit, frame, hide, lie, place, program, reach, rewrite, trigger
from .registry import DIMENSIONS, Dimension, Family, Primitive, primitive, primitives_of

__all__ = [
    "DIMENSIONS",
    "Dimension",
    "Family",
    "Primitive",
    "edit",
    "frame",
    "hide",
    "lie",
    "place",
    "primitive",
    "primitives_of",
    "program",
    "reach",
    "rewrite",
    "trigger",
]
