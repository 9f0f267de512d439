"""Runs recorded calls under a tracer, in a sandbox with the reference, for making questions about their execution.

A reply was written in reach of the package's code: it serves to make tasks, never to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from assay.environments.interface import Workspace

from .answers import Answer, read_answers
from .programs import CallProgram
from .sandboxes import CallRequest, run_payload

TRACED_S = 2.0
"""Processor seconds for one traced call."""


class VariableValue(NamedTuple):
    line: int
    times: int
    """Number of runs of the line so far, including this one."""
    name: str
    tree: Any


class TracedCall(NamedTuple):
    answer: Answer | None
    variables: tuple[VariableValue, ...]
    ran: tuple[tuple[str, int], ...]
    """File and first line of each function of the package that ran."""


class _Reply(msgspec.Struct, frozen=True):
    answer: Any
    snapshots: tuple[tuple[int, int, str, Any], ...]
    ran: tuple[tuple[str, int], ...]


async def trace_calls(
    workspace: Workspace,
    inputs: Sequence[tuple[int, CallProgram, dict[str, Any]]],
    request: CallRequest,
    *,
    hash_seed: int = 0,
) -> str:
    """Returns what the tracer wrote, for `read_traces`.

    `inputs` gives number, call, and the target as `payload/call_tracer.py` describes it.
    """
    programs = tuple(
        {"id": n, "operations": one.operations, "observed": one.observed, "target": target} for n, one, target in inputs
    )
    whole = msgspec.structs.replace(request, programs=programs, program_s=TRACED_S)
    result = await run_payload(workspace, "call_tracer.py", whole, hash_seed, 60.0 + 3 * len(programs))
    return result.stdout


def read_traces(written: str) -> dict[int, TracedCall]:
    """Returns the trace of each call by its number; calls that did not end are missing."""
    found: dict[int, TracedCall] = {}
    for line in written.splitlines():
        try:
            number, reply = msgspec.json.decode(line, type=tuple[int, _Reply])
        except (msgspec.MsgspecError, RecursionError):
            continue
        answers = read_answers(msgspec.json.encode([number, reply.answer]))
        found[number] = TracedCall(
            answers.get(number), tuple(VariableValue(*one) for one in reply.snapshots), reply.ran
        )
    return found
