"""Failure attribution: the decisive step and actor of a failed attempt."""

from .alarm import (
    ALARM_AT,
    Alarm,
    AlarmedAttempt,
    AlarmLabel,
    AlarmMonitor,
    AlarmScores,
    read_alarm_label,
    score_alarms,
)
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
    "ALARM_AT",
    "MODES",
    "Alarm",
    "AlarmLabel",
    "AlarmMonitor",
    "AlarmScores",
    "AlarmedAttempt",
    "Attribution",
    "Candidate",
    "Label",
    "Module",
    "attribute",
    "attribute_by_alignment",
    "attribute_by_replay",
    "candidates_of",
    "finding_of",
    "read_alarm_label",
    "score_alarms",
]
