"""Makes questions about the execution of recorded calls: the result of a call, or the value of a local variable.

The calls are those of the package's own tests; they are run again under a tracer in a sandbox, twice with different
hash seeds, and only reproducible values are asked. The answer is only in the task's folder and is compared as data
by the check `answer`. Not asked: answers that can be guessed (None, True, False, 0, empty values, an argument sent
back), and calls whose source, as far as names tell, cannot be shown whole.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.code.excerpts import Excerpt, excerpt_module, missing_names
from assay.code.source import SourceError
from assay.environments.interface import Backend
from assay.tasks.write import write_task
from assay.verify.calls import (
    NO_FORM,
    Answer,
    CallProgram,
    TracedCall,
    json_answer,
    json_value,
    plain_value,
    read_json_answer,
    same_answer,
    write_json_answer,
)

from ._call_traces import CallTraces, describe_units, read_outcome
from ._laboratory import WORKSPACE
from ._manifest import remove_stale_tasks, write_manifest
from ._opening import OpenedSource, open_source
from ._plain_calls import PlainFunction, find_plain_functions
from ._progress import Progress, ignore_progress
from ._question_folder import ExecutionQuestion, draft_question, format_call
from ._units import JudgeElsewhere
from .call_tasks_config import QuestionTasksConfig
from .judging import make_judge

MAX_TEXT = 400
"""Characters of a call, and of an answer."""
GUESSES = ("null", "true", "false", "0", "1", "0.0", "1.0", '""', "[]", "{}")


class QuestionEntry(msgspec.Struct, frozen=True):
    """One question, as in `manifest.json`."""

    id: str
    digest: str
    function: str
    """`path::name`."""
    kind: str
    lines: int
    """Lines of source that it shows."""


class QuestionReport(msgspec.Struct, frozen=True):
    """The whole, as in `manifest.json`."""

    source: str
    source_digest: str
    seed: int
    candidates: int
    """Questions that could be asked of the traced calls."""
    kept: int
    functions: int
    """Functions with plain calls."""
    calls: int
    """Calls traced."""
    asked: dict[str, int]
    """Kind to the number of tasks."""
    dropped: dict[str, int]
    """Reason for dropping candidates to their number."""
    tasks: tuple[QuestionEntry, ...]
    not_separate: int = 0


async def synthesise_questions(
    config: QuestionTasksConfig,
    *,
    backend: Backend,
    cache: Path,
    progress: Progress | None = None,
    elsewhere: JudgeElsewhere | None = None,
) -> QuestionReport:
    """Makes questions. Calls are traced `elsewhere`, if that is given.

    Raises:
        UserError: There is nothing to make tasks from.
        EnvironmentFailure: The sandbox broke.
    """
    tell = progress or ignore_progress
    async with open_source(config.measuring, backend, cache, tell) as source:
        tell("recording the calls of the tests", 0, 1)
        listed = await find_plain_functions(source, config.measuring)
        random.Random(f"{config.seed} questions").shuffle(listed)
        tell("tracing the calls", 0, 1)
        units = describe_units(listed)
        judge = make_judge(source, config.measuring, "questions", elsewhere, tell)
        outcomes = await judge([unit for unit, _ in units])
        traced = [
            call
            for (_, functions), outcome in zip(units, outcomes, strict=True)
            for call in read_outcome(functions, outcome)
        ]
        return await asyncio.to_thread(_write, source, config, listed, traced)


class _QuestionBuilder:
    """Turns traced calls into questions and counts dropped candidates by reason."""

    def __init__(self, source: OpenedSource, config: QuestionTasksConfig) -> None:
        self._source, self._config = source, config
        self.dropped: Counter[str] = Counter()
        self.candidates = 0

    def questions_of(self, traced: Sequence[CallTraces], rng: random.Random) -> list[ExecutionQuestion]:
        """Returns at most `per_function` questions of one function, of different calls where there are enough."""
        excerpts = [one for call in traced for one in self._ask(call)]
        rng.shuffle(excerpts)
        asked: list[ExecutionQuestion] = []
        while excerpts and len(asked) < self._config.per_function:
            best = min(
                excerpts, key=lambda one: (_count_equal(one.call, "call", asked), _count_equal(one.kind, "kind", asked))
            )
            asked.append(best)
            excerpts = [one for one in excerpts if (one.call, one.kind) != (best.call, best.kind)]
        return asked

    def _ask(self, traced: CallTraces) -> Iterator[ExecutionQuestion]:
        call = format_call(traced.function.name, traced.call)
        if len(call) > MAX_TEXT:
            self._count_dropped("the call is too long")
            return
        excerpts = self._excerpts(traced.first)
        if isinstance(excerpts, str):
            self._count_dropped(excerpts)
            return
        for location, answer in self._answers(traced):
            self.candidates += 1
            problem = self._find_objection(answer, traced)
            if problem:
                self.dropped[problem] += 1
                continue
            kind = "variable" if location else "return"
            yield ExecutionQuestion(traced.function, call, kind, location, write_json_answer(answer), excerpts)

    def _count_dropped(self, reason: str) -> None:
        self.candidates += 1
        self.dropped[reason] += 1

    def _answers(self, traced: CallTraces) -> Iterator[tuple[tuple[int, int, str] | None, Answer]]:
        """Yields line, count and variable (None: the call itself) with the answer, where both runs agree."""
        if "return" in self._config.kinds:
            one, two = (json_answer(run.answer, traced.call) for run in (traced.first, traced.second))
            if one is not None and two is not None and one != NO_FORM and same_answer(one, two):
                yield None, one
            else:
                self._count_dropped("the answer has no JSON form, changes arguments or differs from run to run")
        repeated = {(v.line, v.times, v.name): v.tree for v in traced.second.variables}
        for value in traced.first.variables if "variable" in self._config.kinds else ():
            location = (value.line, value.times, value.name)
            answers = [_json_form(tree) for tree in (value.tree, repeated.get(location))]
            if None not in answers and same_answer(answers[0] or "", answers[1] or ""):
                yield location, answers[0] or ""

    def _find_objection(self, answer: Answer, traced: CallTraces) -> str:
        text = write_json_answer(answer)
        if len(text) > MAX_TEXT:
            return "the answer is too long"
        if answer[0][1] == "ok":
            value = text.removeprefix('{"result": ').removesuffix("}")
            sent = [("ok", json_value(tree)) for tree in _arguments(traced.call)]
            if value in GUESSES or any(same_answer(((0, *one),), answer) for one in sent):
                return "the answer can be guessed"
        read = read_json_answer(text)
        return "" if read is not None and same_answer(answer, read) else "the answer is not the same read back"

    def _excerpts(self, traced: TracedCall) -> dict[str, Excerpt] | str:
        """Returns the excerpt of each file, or the reason that the source cannot be shown."""
        ran: dict[str, set[int]] = {}
        for file, line in traced.ran:
            ran.setdefault(file.removeprefix(f"{WORKSPACE}/"), set()).add(line)
        try:
            excerpts = {
                path: excerpt_module(self._source.tree.files[path].decode(), lines)
                for path, lines in sorted(ran.items())
            }
        except (KeyError, SourceError, UnicodeDecodeError):
            return "the source that ran is not text of the package"
        if sum(len(one.lines) for one in excerpts.values()) > self._config.source_lines:
            return "the source that ran is too long"
        if missing_names(excerpts, self._source.tree.import_names):
            return "the source that ran cannot be shown whole"
        return excerpts


def _count_equal(value: str, field: str, asked: Sequence[ExecutionQuestion]) -> int:
    return sum(getattr(one, field) == value for one in asked)


def _arguments(call: CallProgram) -> list[Any]:
    args, named = call.operations[0][4:6]
    return [*args, *[tree for _, tree in named]]


def _json_form(tree: Any) -> Answer | None:
    try:
        plain_value(tree)
        return ((0, "ok", json_value(tree)),)
    except (ValueError, TypeError, IndexError, RecursionError):
        return None


def _write(
    source: OpenedSource, config: QuestionTasksConfig, listed: Sequence[PlainFunction], traced: Sequence[CallTraces]
) -> QuestionReport:
    out, builder = Path(config.out), _QuestionBuilder(source, config)
    out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(f"{config.seed} asked")
    questions = []
    for one in listed:
        own = [call for call in traced if call.function is one]
        questions += list(enumerate(builder.questions_of(own, rng), 1))
    chosen = {question.identity(source.tree, number): question for number, question in questions}
    kept = dict(list(chosen.items())[: config.count])
    remove_stale_tasks(out, set(kept))
    entries = []
    for identity, question in kept.items():
        task = write_task(out / identity, draft_question(source, question, identity), replace=True).task
        lines = sum(len(one.lines) for one in question.excerpts.values())
        entries.append(QuestionEntry(identity, task.digest, question.function.key, question.kind, lines))
    report = QuestionReport(
        source=source.tree.title,
        source_digest=source.tree.digest,
        seed=config.seed,
        candidates=builder.candidates,
        kept=len(entries),
        functions=len(listed),
        calls=len(traced),
        asked=dict(sorted(Counter(entry.kind for entry in entries).items())),
        dropped=dict(sorted(builder.dropped.items())),
        tasks=tuple(entries),
    )
    write_manifest(out, report)
    return report
