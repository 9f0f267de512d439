"""Judges a final state by calls on fresh inputs; no code of the agent's runs in the deciding process.

The inputs are drawn here, after the agent's processes are dead. The worker's sandbox holds the final state, answers and
is closed; only then is the reference written into a sandbox of the task's image, where it answers. The judge is this
process: it reads both answers as data (`answers`).

Covered: tests that are read, patched or answered from memory; a worker that sends false answers.
Not covered: a wrong reference, and behaviour that no drawn input shows.
"""

from __future__ import annotations

import asyncio
import math
import random
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from assay.environments.interface import Backend, Snapshot, WorkspaceSpec
from assay.records import SandboxFacts, digest_record
from assay.verdicts import NO_RESULT
from assay.verify.interface import SEED_BYTES
from assay.verify.sanitise import opened, require_mounts
from assay.verify.separation import read_facts

from .answers import LATE, STOPPED, Answer, describe_answer
from .draw import draw_inputs
from .equality import same_answer
from .programs import CallPlan, CallProgram, ReferenceFix
from .reference import FairAnswers, answer_by_reference
from .sandboxes import calls_spec
from .stdio_worker import WorkerAnswers, answer_by_worker

WORKER_S = 2.0
MARGIN = 1.25
MAX_DRAWN = 800
MAX_WITNESSES = 5


class CallsQuestion(NamedTuple):
    """A call program as sent to the worker."""

    number: int
    """Position in the worker's shuffled order, which reveals nothing of the input."""
    input: int
    """Number of the drawn input; a tenth of the inputs are asked twice."""
    program: CallProgram


class CallsResult(NamedTuple):
    status: Literal["pass", "fail", "unknown"]
    reason: str
    compared: int
    """Inputs on which both were compared."""
    differing: int
    data: dict[str, Any]
    """Evidence: the seed, the counts and the first differences; plain JSON data."""
    worker: SandboxFacts = SandboxFacts()
    """Facts about the sandbox with the final state."""
    reference: SandboxFacts = SandboxFacts()
    """Facts about the sandbox with only the reference."""
    marks: tuple[str, ...] = ()
    """`NO_RESULT` if a time limit is the only evidence against the final state."""


async def judge_by_calls(
    backend: Backend,
    spec: WorkspaceSpec,
    state: Snapshot,
    plan: CallPlan,
    fixes: Sequence[ReferenceFix],
    *,
    seed: bytes | None = None,
    package: Path | None = None,
    patience: float = 1.0,
) -> CallsResult:
    """Compares the final state with the reference on fresh inputs.

    If answers are missing because of a limit in wall seconds and no answer is wrong, the check has no result: the
    host may have been busy; `patience` multiplies those limits. A recorded `seed` gives the same inputs again; None
    draws one from the operating system. `package` is a host folder with the reference's files where the image has none
    of them; it is copied to the working directory of the reference's sandbox alone, after the worker has answered.

    Raises:
        EnvironmentFailure: A sandbox broke.
        TaskError: The reference does not fit the image.
        VerifierError: The backend has no sandbox or tool layer.
    """
    require_mounts(backend)
    began, seed = time.monotonic(), seed or secrets.token_bytes(SEED_BYTES)
    inputs, questions = draw_questions(plan, seed)
    # Opened first, so that no number of a namespace or device can be used twice: the reference itself comes later.
    async with opened(backend, calls_spec(spec)) as reference:
        answers, worker = await _answer_by_worker(backend, spec, state, plan, questions, patience=patience)
        if package is not None:
            await reference.upload(package, spec.workdir)
        fair = await answer_by_reference(reference, plan, list(enumerate(inputs)), fixes, patience=patience)
    result = await asyncio.to_thread(_ruling, plan, seed, inputs, _Answers(questions, answers, fair))
    data = {**result.data, "patience": round(patience, 2), "duration_s": round(time.monotonic() - began, 3)}
    return result._replace(data=data, worker=worker, reference=fair.facts)


def draw_questions(plan: CallPlan, seed: bytes) -> tuple[list[CallProgram], list[CallsQuestion]]:
    """Returns the inputs of a seed, and the worker's questions in their order: a tenth of the inputs twice."""
    count = min(MAX_DRAWN, math.ceil(plan.inputs / max(plan.fair_share, 0.04) * MARGIN) + 4)
    inputs = draw_inputs(plan.programs, count, seed)
    rng = random.Random(seed + b"order")
    order = [*range(len(inputs)), *rng.sample(range(len(inputs)), math.ceil(len(inputs) / 10))]
    rng.shuffle(order)
    return inputs, [CallsQuestion(number, one, inputs[one]) for number, one in enumerate(order)]


class _Answers(NamedTuple):
    questions: Sequence[CallsQuestion]
    worker: WorkerAnswers
    reference: FairAnswers


async def _answer_by_worker(
    backend: Backend,
    spec: WorkspaceSpec,
    state: Snapshot,
    plan: CallPlan,
    questions: Sequence[CallsQuestion],
    *,
    patience: float,
) -> tuple[WorkerAnswers, SandboxFacts]:
    async with opened(backend, calls_spec(spec), state) as workspace:
        asked = [(q.number, q.program) for q in questions]
        answers = await answer_by_worker(workspace, asked, plan, program_s=WORKER_S, patience=patience)
        return answers, await read_facts(workspace)


def _ruling(plan: CallPlan, seed: bytes, inputs: Sequence[CallProgram], given: _Answers) -> CallsResult:
    right = given.reference.answers
    wrong: dict[int, Answer | None] = {}
    for question in given.questions:
        if question.input in right:
            answer = given.worker.answers.get(question.number)
            agrees = answer is not None and same_answer(right[question.input], answer, tolerance=plan.tolerance)
            if not agrees and _is_late(wrong.get(question.input, LATE)):
                wrong[question.input] = answer
    telling = sorted(wrong, key=lambda number: (_is_late(wrong[number]), number))[:MAX_WITNESSES]
    data = {
        "seed": seed.hex(),
        "plan": digest_record(plan),
        "drawn": len(inputs),
        "asked": len(given.questions),
        "answered": len(given.worker.answers),
        "compared": len(right),
        "needed": plan.inputs,
        "differing": len(wrong),
        "dropped": dict(given.reference.dropped),
        "differences": [_witness(inputs[n], right[n], wrong[n]) for n in telling],
    }
    if given.worker.note:
        data["worker"] = given.worker.note
    if wrong and all(_is_late(answer) for answer in wrong.values()):
        reason = (
            f"{len(wrong)} of {len(right)} fresh inputs were not answered within the time limit; no answer is wrong"
        )
        return CallsResult("unknown", reason, len(right), len(wrong), data, marks=(NO_RESULT, "time_limit"))
    if wrong:
        reason = f"{len(wrong)} of {len(right)} fresh inputs are answered otherwise than by the reference"
        return CallsResult("fail", reason, len(right), len(wrong), data)
    if len(right) < plan.inputs:
        reason = f"only {len(right)} of the {plan.inputs} fresh inputs needed could be compared"
        return CallsResult("unknown", reason, len(right), 0, data)
    return CallsResult("pass", f"all {len(right)} fresh inputs are answered as by the reference", len(right), 0, data)


def _is_late(answer: Answer | None) -> bool:
    """Returns whether a time limit in wall seconds is the reason for a missing answer."""
    return answer in (LATE, STOPPED)


def _witness(program: CallProgram, right: Answer, answer: Answer | None) -> dict[str, str]:
    operations = msgspec.json.encode(program.operations).decode()
    return {
        "program": operations if len(operations) <= 1500 else operations[:1500] + " ...",
        "reference": describe_answer(right),
        "answer": describe_answer(answer),
    }
