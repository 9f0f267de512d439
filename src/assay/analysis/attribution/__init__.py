"""Failure attribution: the decisive step and actor of a failed attempt, afterwards and online."""

from .alignment import attribute_by_alignment
from .metrics import (
    Accuracy,
    AlarmOutcome,
    AlarmScore,
    LabelledPrediction,
    accuracy,
    last_step,
    random_expectation,
    score_alarms,
)
from .online import Alarm, Auditor, SignAuditor, audit_online
from .rules import Attribution, Candidate, attribute, attribute_by_replay, candidates_of, finding_of
from .taxonomy import MODES, Label, Module

__all__ = [
    "MODES",
    "Accuracy",
    "Alarm",
    "AlarmOutcome",
    "AlarmScore",
    "Attribution",
    "Auditor",
    "Candidate",
    "Label",
    "LabelledPrediction",
    "Module",
    "SignAuditor",
    "accuracy",
    "attribute",
    "attribute_by_alignment",
    "attribute_by_replay",
    "audit_online",
    "candidates_of",
    "finding_of",
    "last_step",
    "random_expectation",
    "score_alarms",
]
