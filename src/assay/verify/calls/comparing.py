"""Compares two versions of a program by the calls of some tests, on fresh inputs. A measurement, never a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from assay.environments.interface import Backend, Snapshot, WorkspaceSpec
from assay.verify.sanitise import opened

from .answers import Answer, describe_answer, describe_value
from .draw import draw_inputs
from .equality import same_answer
from .programs import CallPlan, CallProgram, slice_programs
from .reference import fair_answers
from .sandboxes import CallRequest, RecordRequest, answer_calls, calls_spec, put_texts, record_calls

INPUTS = 80


class CallComparison(NamedTuple):
    looked: int
    """Number of inputs that the first version answers equally in two processes with two hash seeds."""
    witness: str = ""
    """An input that the versions answer differently, twice, with both answers; else empty."""


class CallComparer:
    """Programs, inputs and answers of the first version (`state`), computed once for any number of other versions.

    `request` names the tests whose calls are recorded on it, and the functions that they have to reach.
    """

    def __init__(
        self, backend: Backend, spec: WorkspaceSpec, state: Snapshot, request: RecordRequest, *, seed: bytes
    ) -> None:
        self._backend, self._spec, self._state = backend, spec, state
        self._request = request
        self._seed = seed
        self._inputs: list[tuple[int, CallProgram]] | None = None
        self._right: dict[int, Answer] = {}

    async def compare(self, texts: Mapping[str, bytes]) -> CallComparison:
        """Compares the first version with itself plus some files. Raises `EnvironmentFailure` if a sandbox fails."""
        if self._inputs is None:
            await self._measure()
        questions = [(n, one) for n, one in self._inputs or () if n in self._right]
        if not questions:
            return CallComparison(0)
        async with opened(self._backend, calls_spec(self._spec), self._state) as workspace:
            await put_texts(workspace, texts)
            first, again = [await answer_calls(workspace, questions, self._calls(), hash_seed=seed) for seed in (0, 1)]
        for n, program in questions:
            one, two = first.get(n), again.get(n)
            if one is not None and two is not None and not _agrees(self._right[n], one, two):
                shown = f"{_describe(program)}: {describe_answer(self._right[n])}, and in the other "
                return CallComparison(len(questions), f"{shown[:600]}{describe_answer(one)}")
        return CallComparison(len(questions))

    async def _measure(self) -> None:
        recordings = await record_calls(self._backend, self._spec, {}, self._request, self._state)
        self._inputs = list(enumerate(draw_inputs(slice_programs(recordings), INPUTS, self._seed)))
        if not self._inputs:
            return
        async with opened(self._backend, calls_spec(self._spec), self._state) as workspace:
            runs = [await answer_calls(workspace, self._inputs, self._calls(), hash_seed=seed) for seed in (0, 1)]
        raised = {op.of for one in recordings for op in one.operations if op.result == "raised"}
        plan = CallPlan((), (), (), 0, exceptions=tuple(sorted(raised)))
        self._right = fair_answers([n for n, _ in self._inputs], runs[0], runs[1], plan).answers

    def _calls(self) -> CallRequest:
        return CallRequest((), self._request.imports, self._request.paths)


def _describe(program: CallProgram) -> str:
    """Returns the call inside which a target ran, as `name(arguments)`."""
    call = next(operation for operation in program.operations if operation[0] == program.observed)
    name = call[2][2] if call[1] == "call" else str(call[3])
    arguments = call[4] if call[1] in ("call", "method") else []
    return f"{name}({', '.join(describe_value(tree) for tree in arguments)})"


def _agrees(right: Answer, one: Answer, two: Answer) -> bool:
    """Returns whether two versions agree: they differ only if both answers of the other version do."""
    return same_answer(right, one) or same_answer(right, two)
