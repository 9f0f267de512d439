"""Judges a program by calls on fresh inputs, outside of the process that holds what an agent wrote.

When a task is made, `record_calls` and `programs_of` turn its tests into programs of public calls, and `measure_power`
makes a `CallPlan` or says why there is none. When an attempt is judged: `judge_by_calls`.
"""

from .comparing import CallComparer, CallComparison
from .deciding import CalledTests, call_plans, judge_called_tests
from .judge import CallsResult, judge_by_calls
from .power import CallRefusal, PowerQuestion, measure_power
from .programs import CallPlan, CallProgram, OtherRelease, ReferenceFix, ReleaseUse, programs_of
from .reference import read_fixes, span_fix
from .sandboxes import RecordRequest, record_calls

__all__ = [
    "CallComparer",
    "CallComparison",
    "CallPlan",
    "CallProgram",
    "CallRefusal",
    "CalledTests",
    "CallsResult",
    "OtherRelease",
    "PowerQuestion",
    "RecordRequest",
    "ReferenceFix",
    "ReleaseUse",
    "call_plans",
    "judge_by_calls",
    "judge_called_tests",
    "measure_power",
    "programs_of",
    "read_fixes",
    "record_calls",
    "span_fix",
]
