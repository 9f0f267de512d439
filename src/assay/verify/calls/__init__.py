"""Judges a program by calls on fresh inputs, outside the process that runs the agent's code.

When a task is made, `record_calls` and `slice_programs` turn its tests into programs of public calls, and
`measure_power` returns a `CallPlan` or the reason for a refusal. When an attempt is judged: `judge_by_calls`.
"""

from .answers import Answer
from .comparing import CallComparer, CallComparison
from .deciding import CalledTests, ReferenceFiles, call_plans, judge_called_tests
from .equality import same_answer
from .json_form import NO_FORM, json_answer, json_value, plain_value, read_json_answer, write_json_answer, write_request
from .judge import CallsResult, judge_by_calls
from .languages import BRIDGED, ProgramLanguage, load_language
from .power import CallRefusal, PowerQuestion, measure_power
from .programs import (
    CalledProgram,
    CallPlan,
    CallProgram,
    OtherRelease,
    Recording,
    ReferenceFix,
    ReleaseUse,
    slice_programs,
)
from .reference import answer_by_reference, read_fixes, span_fix
from .sandboxes import CallRequest, RecordRequest, calls_spec, record_calls
from .tracing import TracedCall, VariableValue, read_traces, trace_calls

__all__ = [
    "BRIDGED",
    "NO_FORM",
    "Answer",
    "CallComparer",
    "CallComparison",
    "CallPlan",
    "CallProgram",
    "CallRefusal",
    "CallRequest",
    "CalledProgram",
    "CalledTests",
    "CallsResult",
    "OtherRelease",
    "PowerQuestion",
    "ProgramLanguage",
    "RecordRequest",
    "Recording",
    "ReferenceFiles",
    "ReferenceFix",
    "ReleaseUse",
    "TracedCall",
    "VariableValue",
    "answer_by_reference",
    "call_plans",
    "calls_spec",
    "json_answer",
    "json_value",
    "judge_by_calls",
    "judge_called_tests",
    "load_language",
    "measure_power",
    "plain_value",
    "read_fixes",
    "read_json_answer",
    "read_traces",
    "record_calls",
    "same_answer",
    "slice_programs",
    "span_fix",
    "trace_calls",
    "write_json_answer",
    "write_request",
]
