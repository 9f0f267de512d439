"""Failure attribution: the decisive step and actor of a failed attempt."""

from .rules import (
    Attribution,
    Candidate,
    attribute,
    attribute_by_alignment,
    attribute_by_replay,
    candidates_of,
    finding_of,
)
from .signs import MODES, Label, Module

__all__ = [
    "MODES",
    "Attribution",
    "Candidate",
    "Label",
    "Module",
    "attribute",
    "attribute_by_alignment",
    "attribute_by_replay",
    "candidates_of",
    "finding_of",
]
