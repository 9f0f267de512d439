"""Asks a program in another language, which is built and started in the sandbox with the final state.

The program reads one request a line on standard input and writes one answer a line.

Covered: a program that dies (it is started again after the request that it did not answer, a few times), that does not
end (all starts share one deadline), that floods its output, or answers too little, too much or no JSON. Not covered:
one process answers many requests, so that it may remember earlier ones; a program may start another language's
interpreter, where the sandbox has one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

from assay.environments.interface import ExecResult, Workspace

from .answers import LATE, MAX_REPLY_BYTES, MAX_TOTAL_NODES, STOPPED, Answer
from .json_form import NodeBudget, read_json_answer, write_request
from .programs import CalledProgram, CallPlan, CallProgram
from .sandboxes import CallRequest, answer_calls

START_S, REQUEST_S = 15.0, 0.5
"""Wall seconds of all starts together, and additional ones for each request."""
CPU_SHARE = 0.9
"""Share of the limit, without patience, that a program must have computed to be called slow on a busy host, too."""
MAX_RESTARTS = 3
MAX_NOTE = 500


class WorkerAnswers(NamedTuple):
    """Answers by the number of the input, and observations of the program."""

    answers: dict[int, Answer]
    note: str = ""
    """Reason for missing answers; empty if the program ended by itself."""


async def answer_by_worker(
    workspace: Workspace,
    inputs: Sequence[tuple[int, CallProgram]],
    plan: CallPlan,
    *,
    program_s: float,
    patience: float = 1.0,
) -> WorkerAnswers:
    """Asks the worker of a plan: the Python package, or a program in another language.

    Every process in `workspace` is dead when this returns. `program_s` limits the processor seconds for one input of a
    Python package; `patience` multiplies limits in wall seconds.
    """
    if plan.program is not None:
        return await _ask_program(workspace, inputs, plan.program, patience)
    request = CallRequest((), plan.imports, plan.roots, program_s=program_s, patience=patience)
    return WorkerAnswers(await answer_calls(workspace, inputs, request))


async def _ask_program(
    workspace: Workspace, inputs: Sequence[tuple[int, CallProgram]], called: CalledProgram, patience: float
) -> WorkerAnswers:
    language = called.language
    lines = [(n, text) for n, one in inputs if (text := write_request(one, called)) is not None]
    try:
        if language.compile:
            built = await workspace.exec(language.compile, timeout_s=language.compile_s * patience)
            if built.exit_code != 0 or built.timed_out:
                answers: dict[int, Answer] = {n: LATE for n, _ in lines} if built.timed_out else {}
                return WorkerAnswers(answers, _note("the compile command", built))
        return await _ask_lines(workspace, lines, language.run, patience)
    finally:
        await workspace.kill_all()


async def _ask_lines(
    workspace: Workspace, lines: Sequence[tuple[int, str]], run: Sequence[str], patience: float
) -> WorkerAnswers:
    found: dict[int, Answer] = {}
    left, note, budget = list(lines), "", NodeBudget(MAX_TOTAL_NODES)
    limit_s = START_S + REQUEST_S * len(left)
    deadline = time.monotonic() + limit_s * patience
    for _ in range(MAX_RESTARTS + 1):
        remaining_s = deadline - time.monotonic()
        if not left or remaining_s <= 0:
            break
        sent = "".join(f"{text}\n" for _, text in left).encode()
        result = await workspace.exec(run, stdin=sent, timeout_s=remaining_s, show_bytes=MAX_REPLY_BYTES)
        await workspace.kill_all()
        # In a thread: a hostile reply takes seconds to parse.
        answers = await asyncio.to_thread(_read_lines, result, len(left), budget)
        found.update({n: answer for (n, _), answer in zip(left, answers, strict=False) if answer is not None})
        if len(answers) < len(left):
            note = note or _note("the program", result)
            found[left[len(answers)][0]] = _ending(result, limit_s)
        left = left[len(answers) + 1 :]
    found.update({n: STOPPED for n, _ in left})
    return WorkerAnswers(found, note)


def _ending(result: ExecResult, limit_s: float) -> str:
    """Returns the reason for a missing answer; a program that computed for most of the limit was not delayed."""
    if not result.timed_out:
        return "died"
    return "time" if (result.cpu_s or 0.0) >= CPU_SHARE * limit_s else LATE


def _read_lines(result: ExecResult, count: int, budget: NodeBudget) -> list[Answer | None]:
    """Returns the answers of the first lines; an unterminated last line counts if the program ended by itself."""
    lines = result.stdout.split("\n", count)
    if len(lines) > count or not lines[-1].strip() or result.timed_out:
        del lines[-1]
    return [read_json_answer(line, budget) for line in lines]


def _note(who: str, result: ExecResult) -> str:
    ended = "did not end in time" if result.timed_out else f"ended with exit code {result.exit_code}"
    return f"{who} {ended}: {result.stderr.strip()[-MAX_NOTE:]}".rstrip(": ")
