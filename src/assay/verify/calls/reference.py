"""Answers drawn inputs by the reference and selects those that are fair to compare with another solution's.

An input is dropped if the reference does not end in time, differs from itself (another process, hash seed and home
folder), from a behaviour-preserving rewrite of itself or from another release that passes the tests, or fails by an
error that it does not raise on purpose.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.code.preserving import PRESERVING
from assay.environments.interface import Workspace
from assay.errors import TaskError
from assay.records import SandboxFacts
from assay.verify.separation import read_facts

from .answers import Answer
from .equality import same_answer
from .json_form import NO_FORM, collapse_call, json_answer, write_request
from .programs import CalledProgram, CallPlan, CallProgram, ReferenceFix
from .sandboxes import CallRequest, answer_calls, put_texts

REFERENCE_S = 0.4
"""Processor seconds that the reference may take for one program; a worker may take several times that."""
FIX_PATH = "solution/fix.json"
OTHER_RELEASE = "another release answers otherwise"
REWRITES = ("renamed-locals", "equal-expressions", "reordered")


class FairAnswers(NamedTuple):
    """The reference's answers that may be compared, and the reasons why the others may not."""

    answers: dict[int, Answer]
    dropped: Counter[str]
    facts: SandboxFacts = SandboxFacts()
    """Facts about the reference's sandbox."""


def read_fixes(folder: Path | None) -> tuple[ReferenceFix, ...]:
    """Reads a synthesised task's reference. Blocking. Raises `TaskError` if the folder has none."""
    try:
        if folder is None:
            raise FileNotFoundError(FIX_PATH)
        return msgspec.json.decode((folder / FIX_PATH).read_bytes(), type=tuple[ReferenceFix, ...])
    except (OSError, msgspec.MsgspecError) as exc:
        raise TaskError(f"the task's reference cannot be read from {FIX_PATH}: {exc}") from exc


def span_fix(path: str, broken: str, right: str) -> ReferenceFix:
    """Returns the shortest single span whose replacement turns one text into the other."""
    shorter = min(len(broken), len(right))
    start = next((i for i, (a, b) in enumerate(zip(broken, right, strict=False)) if a != b), 0)
    tail = 0
    while tail < shorter - start and broken[-1 - tail] == right[-1 - tail]:
        tail += 1
    return ReferenceFix(path, start, broken[start : len(broken) - tail], right[start : len(right) - tail])


async def reference_texts(workspace: Workspace, fixes: Sequence[ReferenceFix]) -> dict[str, bytes]:
    """Returns the reference's files by absolute path, read from an unused sandbox of the task's image.

    Raises:
        TaskError: A file of the image differs from the one that the reference expects.
    """
    made: dict[str, bytes] = {}
    for fix in fixes:
        path = posixpath.join(workspace.spec.workdir, fix.path)
        text = (made.get(path) or await workspace.read(path)).decode()
        end = fix.start + len(fix.broken)
        if text[fix.start : end] != fix.broken:
            raise TaskError(f"{fix.path} in the task's image is not the text that the reference changes")
        made[path] = (text[: fix.start] + fix.right + text[end:]).encode()
    return made


async def answer_by_reference(
    workspace: Workspace,
    plan: CallPlan,
    inputs: Sequence[tuple[int, CallProgram]],
    fixes: Sequence[ReferenceFix],
    *,
    patience: float = 1.0,
) -> FairAnswers:
    """Asks the reference twice, and the plan's other releases once each.

    The second time it is rewritten without a change of behaviour, and runs with another hash seed; where the worker is
    a program that reads JSON, it is asked the JSON form of the input. `workspace` is an unused sandbox of the task's
    image, with the spec of `calls_spec`; the reference is written into it here, not before.
    """
    request = CallRequest((), plan.imports, plan.roots, program_s=REFERENCE_S, endless=40, patience=patience)
    texts = await reference_texts(workspace, fixes)
    releases = [await reference_texts(workspace, release.fixes) for release in plan.releases]
    await put_texts(workspace, texts)
    first = await answer_calls(workspace, inputs, request, hash_seed=0)
    await put_texts(workspace, rewrite_files(texts))
    seen = inputs if plan.program is None else [(number, collapse_call(one)) for number, one in inputs]
    second = await answer_calls(workspace, seen, request, hash_seed=1)
    if plan.program is not None:
        first, second = _as_json(first, inputs, plan.program), _as_json(second, seen, plan.program)
    fair = fair_answers([number for number, _ in inputs], first, second, plan)
    for other in releases:
        await put_texts(workspace, other)
        asked = [(number, program) for number, program in inputs if number in fair.answers]
        answers = await answer_calls(workspace, asked, request, hash_seed=0)
        fair = _agreeing(fair, answers if plan.program is None else _as_json(answers, asked, plan.program), plan)
    return fair._replace(facts=await read_facts(workspace))


def _as_json(
    answers: Mapping[int, Answer], inputs: Sequence[tuple[int, CallProgram]], called: CalledProgram
) -> dict[int, Answer]:
    """Returns the answers in their JSON form; `NO_FORM` for calls without a JSON form."""
    found = {n: json_answer(answers.get(n), one) if write_request(one, called) else NO_FORM for n, one in inputs}
    return {number: answer for number, answer in found.items() if answer is not None}


def rewrite_files(texts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns Python files rewritten without a change of behaviour."""
    made = {}
    for path, data in texts.items():
        text = data.decode(errors="surrogateescape")
        for name in REWRITES if path.endswith(".py") else ():
            text = PRESERVING[name](text, range(1, text.count("\n") + 2)) or text
        made[path] = text.encode(errors="surrogateescape")
    return made


def fair_answers(
    numbers: Sequence[int], first: Mapping[int, Answer], second: Mapping[int, Answer], plan: CallPlan
) -> FairAnswers:
    """Selects the answers that the reference gives twice and whose exceptions the tests expect."""
    fair, dropped = {}, Counter[str]()
    for number in numbers:
        one, two = first.get(number), second.get(number)
        reason = _objection(one, plan)
        if not reason and (one is None or two is None or not same_answer(one, two, tolerance=plan.tolerance)):
            reason = "the reference differs from itself"
        if reason or one is None:
            dropped[reason] += 1
        else:
            fair[number] = one
    return FairAnswers(fair, dropped)


def _agreeing(fair: FairAnswers, other: Mapping[int, Answer], plan: CallPlan) -> FairAnswers:
    """Returns the answers that another release gives too."""
    answers = {
        number: answer
        for number, answer in fair.answers.items()
        if number in other and same_answer(answer, other[number], tolerance=plan.tolerance)
    }
    return fair._replace(
        answers=answers, dropped=fair.dropped + Counter({OTHER_RELEASE: len(fair.answers) - len(answers)})
    )


def _objection(answer: Answer | None, plan: CallPlan) -> str:
    if answer == NO_FORM:
        return "the answer has no JSON form, or the call changes its arguments"
    if answer is None or isinstance(answer, str):
        return "the reference gives no answer in time"
    if not answer or answer[0][1] == "skip":
        return "the reference cannot be called with it"
    if any(one[1] == "opaque" for one in answer):
        return "the answer holds what cannot be compared as data"
    raised: list[Any] = [one for one in answer if one[1] == "!"]
    if any(not one[3] for one in raised):
        return "an error that the reference does not raise on purpose"
    if any(one[2] not in plan.exceptions for one in raised):
        return "an exception that no test expects"
    return ""
