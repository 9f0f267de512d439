"""Asks a program in another language: it is built and started in the sandbox with the final state, gets all requests on
its standard input, one a line, and writes one answer a line.

Covered: a program that dies or does not end (it is started again after the request that it did not answer, a few
times), that floods its output, or answers too little, too much or no JSON. Not covered: one process answers many
requests, so that it may remember earlier ones; a program may start another language's interpreter, where the sandbox
has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay.environments.interface import ExecResult, Workspace

from .answers import MAX_REPLY_BYTES, Answer
from .json_form import read_json_answer, write_request
from .programs import CalledProgram, CallPlan, CallProgram
from .sandboxes import CallRequest, answer_calls

__all__ = ["WorkerAnswers", "answer_by_worker"]

START_S, REQUEST_S = 15.0, 0.5
"""Wall seconds of one start, and for each request beside."""
MAX_RESTARTS = 3
MAX_NOTE = 500


class WorkerAnswers(NamedTuple):
    """Answers by the number of the input, and what was seen of the program."""

    answers: dict[int, Answer]
    note: str = ""
    """Why the program gave no answers; empty where it ended by itself."""


async def answer_by_worker(
    workspace: Workspace, inputs: Sequence[tuple[int, CallProgram]], plan: CallPlan, *, program_s: float
) -> WorkerAnswers:
    """Asks the worker of a plan: the Python package, or a program in another language.

    Args:
        workspace: The sandbox with what is judged; every process in it is dead when this returns.
        inputs: Numbered inputs.
        plan: What is called.
        program_s: Processor seconds for one input, of a Python package.
    """
    if plan.program is not None:
        return await _ask_program(workspace, inputs, plan.program)
    request = CallRequest((), plan.imports, plan.roots, program_s=program_s)
    return WorkerAnswers(await answer_calls(workspace, inputs, request))


async def _ask_program(
    workspace: Workspace, inputs: Sequence[tuple[int, CallProgram]], called: CalledProgram
) -> WorkerAnswers:
    language = called.language
    lines = [(n, text) for n, one in inputs if (text := write_request(one, called)) is not None]
    try:
        if language.compile:
            built = await workspace.exec(language.compile, timeout_s=language.compile_s)
            if built.exit_code != 0:
                return WorkerAnswers({}, _note("the compile command", built))
        return await _ask_lines(workspace, lines, language.run)
    finally:
        await workspace.kill_all()


async def _ask_lines(workspace: Workspace, lines: Sequence[tuple[int, str]], run: Sequence[str]) -> WorkerAnswers:
    found: dict[int, Answer] = {}
    left, note = list(lines), ""
    for _ in range(MAX_RESTARTS + 1):
        if not left:
            break
        sent = "".join(f"{text}\n" for _, text in left).encode()
        wall_s = START_S + REQUEST_S * len(left)
        result = await workspace.exec(run, stdin=sent, timeout_s=wall_s, show_bytes=MAX_REPLY_BYTES)
        await workspace.kill_all()
        answers = _whole_lines(result)
        for (n, _), text in zip(left, answers, strict=False):
            answer = read_json_answer(text)
            if answer is not None:
                found[n] = answer
        if len(answers) < len(left):
            note = note or _note("the program", result)
            found[left[len(answers)][0]] = "time" if result.timed_out else "died"
        left = left[len(answers) + 1 :]
    found.update({n: "stopped" for n, _ in left})
    return WorkerAnswers(found, note)


def _whole_lines(result: ExecResult) -> list[str]:
    """Returns the lines of the output; the last one, without an end, where the program ended by itself."""
    *lines, last = result.stdout.split("\n")
    return [*lines, last] if last.strip() and not result.timed_out else lines


def _note(who: str, result: ExecResult) -> str:
    ended = "did not end in time" if result.timed_out else f"ended with exit code {result.exit_code}"
    return f"{who} {ended}: {result.stderr.strip()[-MAX_NOTE:]}".rstrip(": ")
