"""Judges a program by calls on fresh inputs, outside of the process that holds what an agent wrote.

When a task is made, `record_calls` and `programs_of` turn its tests into programs of public calls, and `measure_power`
makes a `CallPlan` or says why there is none. When an attempt is judged: `judge_by_calls`.
"""

from .judge import CallsResult, judge_by_calls
from .power import CallRefusal, PowerQuestion, measure_power
from .programs import CallPlan, CallProgram, programs_of
from .reference import ReferenceFix, read_fixes
from .sandboxes import RecordRequest, record_calls

__all__ = [
    "CallPlan",
    "CallProgram",
    "CallRefusal",
    "CallsResult",
    "PowerQuestion",
    "RecordRequest",
    "ReferenceFix",
    "judge_by_calls",
    "measure_power",
    "programs_of",
    "read_fixes",
    "record_calls",
]
