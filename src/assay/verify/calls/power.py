"""Makes the plan for judging a task by calls, or refuses if calls cannot decide it.

The unrepaired state and mutants of the reference answer the same drawn inputs as the reference. The number of inputs is
the smallest for which the unrepaired state passes with a probability below 1e-3, each state in which one of several
changes is left does as well, an answer that is always the same one passes below 1e-3, and at least 95% of the mutants
fail. All shares are measured on inputs that are fair to compare.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from assay.environments.interface import Backend, Snapshot, WorkspaceSpec
from assay.verify.sanitise import opened

from .answers import Answer
from .draw import draw_inputs
from .equality import same_answer
from .programs import CallPlan, CallProgram, ReferenceFix
from .reference import REFERENCE_S, FairAnswers, answer_by_reference
from .sandboxes import calls_spec, put_texts
from .stdio_worker import answer_by_worker

BASE_PASS = 1e-3
MUTANT_PASS = 0.05
MUTANT_SHARE = 0.95
MIN_INPUTS, MAX_INPUTS = 20, 240
MIN_DRAWN, MAX_DRAWN, DRAWN_EACH = 120, 320, 12
MIN_FAIR, WANTED_FAIR = 30, 60
MIN_FAIR_SHARE = 0.06
MAX_ASKED = 80
"""Number of fair inputs that mutants are asked."""
Z = 1.645


class CallRefusal(NamedTuple):
    """The reason why a task cannot be judged by calls."""

    reason: str
    plan: CallPlan | None = None


class PowerQuestion(NamedTuple):
    """Question whether and with how many inputs calls decide a task."""

    draft: CallPlan
    """The recorded programs with their imports, roots, exceptions, tolerance and other releases; `inputs` is found
    here."""
    fixes: tuple[ReferenceFix, ...]
    mutants: tuple[Mapping[str, bytes], ...]
    """Files of wrong solutions by absolute path, over the task's image; each fails the deciding tests."""
    state: Snapshot | None = None
    """The unrepaired state, if it is not the image."""
    parts: tuple[Mapping[str, bytes], ...] = ()
    """Of several changes, the files of the states in which one is left unrepaired: a draw must fail each."""


class _Measurement(NamedTuple):
    inputs: list[CallProgram]
    source: list[int]
    """Recorded program from which each input was drawn."""
    fair: FairAnswers
    asked: list[int]
    """Fair inputs, drawn from all, that the wrong solutions were asked."""
    unrepaired: list[_WrongProgram]
    """The unrepaired state, and those in which one of several changes is left."""
    mutants: list[_WrongProgram]


class _WrongProgram(NamedTuple):
    differing: set[int]
    asked: set[int]

    def counts_among(self, inputs: set[int]) -> tuple[int, int]:
        """Returns the number of inputs answered differently from the reference, and the number of those asked."""
        return len(self.differing & inputs), len(self.asked & inputs)


async def measure_power(
    backend: Backend, spec: WorkspaceSpec, question: PowerQuestion, *, seed: bytes
) -> CallPlan | CallRefusal:
    """Returns the plan with the number of inputs and the measured shares, or the reason for a refusal.

    The image of `spec` is the unrepaired state. Judging draws other inputs than `seed` gives.

    Raises:
        EnvironmentFailure: A sandbox failed.
        TaskError: The reference does not fit the image.
    """
    if not question.draft.programs:
        return CallRefusal("no deciding test calls the changed functions with plain data")
    measured = await _measure(backend, spec, question, seed)
    if len(measured.fair.answers) < MIN_FAIR:
        return CallRefusal(f"only {len(measured.fair.answers)} of {len(measured.inputs)} drawn inputs are fair")
    return _plan(question.draft, measured)


async def _measure(backend: Backend, spec: WorkspaceSpec, question: PowerQuestion, seed: bytes) -> _Measurement:
    draft = question.draft
    count = max(MIN_DRAWN, min(MAX_DRAWN, DRAWN_EACH * len(draft.programs)))
    drawn = await _draw_fair(backend, spec, question, count, seed)
    if len(drawn.fair.answers) < WANTED_FAIR:
        drawn = await _draw_fair(backend, spec, question, 4 * count, seed)
    inputs, source, fair = drawn
    chosen = random.Random(seed).sample(sorted(fair.answers), min(MAX_ASKED, len(fair.answers)))
    asked = [(n, inputs[n]) for n in chosen]
    wrong = []
    async with opened(backend, calls_spec(spec), question.state) as workspace:
        for texts in ({}, *question.parts, *question.mutants):
            await put_texts(workspace, texts)
            found = (await answer_by_worker(workspace, asked, draft, program_s=REFERENCE_S)).answers
            asked_now = {n for n in chosen if found.get(n) != "stopped"}
            wrong.append(
                _WrongProgram({n for n in asked_now if _differs(fair.answers[n], found.get(n), draft)}, asked_now)
            )
    count = 1 + len(question.parts)
    return _Measurement(inputs, source, fair, chosen, wrong[:count], wrong[count:])


class _DrawnInputs(NamedTuple):
    inputs: list[CallProgram]
    source: list[int]
    fair: FairAnswers


async def _draw_fair(
    backend: Backend, spec: WorkspaceSpec, question: PowerQuestion, count: int, seed: bytes
) -> _DrawnInputs:
    inputs, source = _inputs_of_each(question.draft.programs, count, seed)
    async with opened(backend, calls_spec(spec), question.state) as reference:
        fair = await answer_by_reference(reference, question.draft, list(enumerate(inputs)), question.fixes)
    return _DrawnInputs(inputs, source, fair)


def _inputs_of_each(programs: Sequence[CallProgram], count: int, seed: bytes) -> tuple[list[CallProgram], list[int]]:
    each = math.ceil(count / len(programs))
    drawn = [draw_inputs((one,), each, seed + bytes([n % 256])) for n, one in enumerate(programs)]
    return [one for some in drawn for one in some], [n for n, some in enumerate(drawn) for _ in some]


def _differs(right: Answer, answer: Answer | None, plan: CallPlan) -> bool:
    return answer is None or not same_answer(right, answer, tolerance=plan.tolerance)


def _plan(draft: CallPlan, measured: _Measurement) -> CallPlan | CallRefusal:
    chosen = _useful_programs(measured, len(draft.programs))
    fair = [n for n in measured.fair.answers if measured.source[n] in chosen]
    asked_inputs = {n for n in measured.asked if measured.source[n] in chosen}
    drawn = sum(source in chosen for source in measured.source)
    if len(asked_inputs) < MIN_FAIR:
        return CallRefusal("no drawn input tells the unrepaired state from the reference")
    base = min(_lower_bound(*one.counts_among(asked_inputs)) for one in measured.unrepaired)
    guessed = _guessed_share(measured, fair)
    if base <= 0 or guessed >= 1:
        return CallRefusal("too few answers tell the unrepaired state, or a constant, from the reference")
    counts = [wrong.counts_among(asked_inputs) for wrong in measured.mutants]
    shares = [differing / max(1, count) for differing, count in counts]
    needed = max(MIN_INPUTS, _enough(1 - base, BASE_PASS), _enough(guessed, BASE_PASS), _for_mutants(shares))
    inputs = min(math.ceil(needed / 10) * 10, MAX_INPUTS)  # rounded: a plan hangs on no time that a call took
    killed = sum(share > 0 and (1 - share) ** inputs <= MUTANT_PASS for share in shares)
    telling = measured.unrepaired[0].differing & asked_inputs
    plan = msgspec.structs.replace(
        draft,
        programs=tuple(draft.programs[n] for n in sorted(chosen)),
        inputs=inputs,
        fair_share=max(0.04, math.floor(20 * len(fair) / drawn) / 20),
        base_share=math.floor(20 * base) / 20,
        mutants=(killed, len(shares)),
        tests=tuple(sorted({draft.programs[measured.source[n]].test for n in telling})),
    )
    if max(_enough(1 - base, BASE_PASS), _enough(guessed, BASE_PASS)) > MAX_INPUTS:
        return CallRefusal(f"more than {MAX_INPUTS} inputs would be needed to fail the unrepaired state", plan)
    if killed < MUTANT_SHARE * len(shares):
        return CallRefusal(f"a draw fails {killed} of {len(shares)} mutants, less than {MUTANT_SHARE:.0%}", plan)
    return plan


def _useful_programs(measured: _Measurement, count: int) -> set[int]:
    """Returns programs whose inputs are fair often enough: those that distinguish solutions, and as many others."""
    drawn = Counter(measured.source)
    fair = Counter(measured.source[n] for n in measured.fair.answers)
    usable = [n for n in range(count) if fair[n] >= MIN_FAIR_SHARE * drawn[n]]
    wrong = (*measured.unrepaired, *measured.mutants)
    telling = Counter(measured.source[n] for one in wrong for n in one.differing)
    useful = [n for n in usable if telling[n]]
    return {*useful, *[n for n in usable if not telling[n]][: len(useful)]}


def _lower_bound(hits: int, count: int) -> float:
    """Returns the one-sided lower 95% Wilson bound of a share."""
    if not hits:
        return 0.0
    share, square = hits / count, Z * Z
    centre = share + square / (2 * count)
    spread = Z * math.sqrt(share * (1 - share) / count + square / (4 * count * count))
    return max(0.0, (centre - spread) / (1 + square / count))


def _guessed_share(measured: _Measurement, fair: Sequence[int]) -> float:
    """Returns the share of inputs that the likeliest answer to each program answers correctly."""
    seen: dict[int, Counter[str]] = {}
    for n in fair:
        seen.setdefault(measured.source[n], Counter())[repr(measured.fair.answers[n])] += 1
    return sum(max(counts.values()) for counts in seen.values()) / len(fair)


def _enough(passes: float, limit: float) -> int:
    """Returns the number of inputs with which a pass by a share of right answers is less likely than the limit."""
    return 1 if passes <= 0 else math.ceil(math.log(limit) / math.log(passes)) if passes < 1 else MAX_INPUTS + 1


def _for_mutants(shares: Sequence[float]) -> int:
    needed = sorted(_enough(1 - share, MUTANT_PASS) for share in shares)
    return needed[math.ceil(MUTANT_SHARE * len(needed)) - 1] if needed else 1
