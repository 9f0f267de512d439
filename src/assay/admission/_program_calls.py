"""Compares a changed shell program with the solution's by the verifier's own calls of it.

The verifier runs twice on the solution and twice on the mutant, with the program replaced by a recorder that runs it
(`payload/program_calls.py`). A call with the same arguments over the same files shows a change of behaviour if the
solution's two runs agree, the mutant's two agree, and they differ in exit status, output or files. The verifier's
result is ignored. Covers calls whose results the verifier does not check; not code that it never runs.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.code.textual import language_of
from assay.environments.interface import Backend, Mount, Snapshot, Workspace, WorkspaceSpec
from assay.environments.workspace.toolchain import PYTHON
from assay.errors import TaskError
from assay.records import Check
from assay.verify.sanitise import has_tool_layer, opened, verifier_spec
from assay.verify.script import TESTS, ScriptParameters, own_network, stage_tests

HOME = "/tmp/assay-calls-of-programs"
RECORDER = Path(__file__).with_name("payload") / "program_calls.py"
MAX_REPLY = 8 << 20
RUN_S = 120.0
Programs = Mapping[str, tuple[bytes, int]]
"""Absolute path to content and mode."""


class ProgramCall(msgspec.Struct, frozen=True):
    """A recorded program call with file trees of its path arguments and of the working directory."""

    program: str
    arguments: tuple[str, ...]
    before: tuple[dict[str, str] | None, ...]
    ok: bool
    printed: str
    after: tuple[dict[str, str] | None, ...]

    @property
    def question(self) -> tuple[Any, ...]:
        """Returns the input of the call."""
        return self.program, self.arguments, self.before

    @property
    def answer(self) -> tuple[Any, ...]:
        """Returns the result of the call."""
        return self.ok, self.printed.split(), self.after


Calls = Sequence[ProgramCall]


class ProgramComparison(NamedTuple):
    looked: int
    """Calls that the solution answers alike twice."""
    witness: str = ""
    """A call that the versions answer differently; else empty."""


class ProgramComparer:
    """Records the solution's calls once and compares any number of changed versions with them."""

    def __init__(
        self, backend: Backend, spec: WorkspaceSpec, state: Snapshot, check: Check, folder: Path | None
    ) -> None:
        self._backend, self._spec, self._state = backend, spec, state
        self._check, self._folder = check, folder
        self._solutions: dict[tuple[str, ...], list[list[ProgramCall]]] = {}

    async def compare(self, right: Programs, changed: Programs) -> ProgramComparison:
        """Compares two versions of the same programs. Raises `EnvironmentFailure` where a sandbox broke."""
        shell_paths = [path for path, (data, _) in sorted(right.items()) if language_of(path, data) == "shell"]
        if not shell_paths or not self._applies():
            return ProgramComparison(0)
        key = tuple(shell_paths)
        if key not in self._solutions:
            self._solutions[key] = [await self._record({p: right[p] for p in shell_paths}) for _ in range(2)]
        one, two = self._solutions[key]
        looked = sum(a == b for a, b in zip(one, two, strict=False))
        if not looked:
            return ProgramComparison(0)
        other = {path: changed[path] for path in shell_paths}
        first = await self._record(other)
        if not first_difference(one, two, first, first):
            return ProgramComparison(looked)
        return ProgramComparison(looked, first_difference(one, two, first, await self._record(other)))

    def _applies(self) -> bool:
        if self._check.kind != "script" or not has_tool_layer(self._spec):
            return False
        parameters = msgspec.convert(self._check.parameters, ScriptParameters)
        return parameters.mode == "shared" and not (parameters.programs or parameters.outputs)

    async def _record(self, programs: Programs) -> list[ProgramCall]:
        parameters = msgspec.convert(self._check.parameters, ScriptParameters)
        try:
            tests = stage_tests(self._folder, parameters.script)
        except TaskError:
            return []
        if tests is None or parameters.script is None:
            return []
        spec = own_network(verifier_spec(self._spec, (Mount(str(tests.path), TESTS),), parameters.env), parameters)
        async with opened(self._backend, spec, self._state) as workspace:
            await _put_recorder(workspace, programs)
            name = f"{TESTS}/{posixpath.basename(parameters.script)}"
            await workspace.exec([*parameters.interpreter, name], timeout_s=min(RUN_S, parameters.timeout_s))
            await workspace.kill_all()
            return await _read_records(workspace)


async def _put_recorder(workspace: Workspace, programs: Programs) -> None:
    await workspace.exec(["mkdir", "-p", "-m", "777", HOME, f"{HOME}/records"], timeout_s=30.0)
    await workspace.write(f"{HOME}/program_calls.py", RECORDER.read_bytes())
    entries = {}
    for number, (path, (data, mode)) in enumerate(sorted(programs.items())):
        interpreter = "/bin/bash" if b"bash" in data.partition(b"\n")[0] else "/bin/sh"
        entries[str(number)] = {"path": f"{HOME}/program-{number}", "interpreter": [interpreter]}
        await workspace.write(f"{HOME}/program-{number}", data)
        start = f'#!/bin/sh\nexec {PYTHON} -I -B {HOME}/program_calls.py {HOME} {number} "$@"\n'
        await workspace.write(path, start.encode(), mode=mode)
    await workspace.write(f"{HOME}/programs.json", json.dumps(entries).encode())


async def _read_records(workspace: Workspace) -> list[ProgramCall]:
    program = f'cd {HOME}/records && for f in *.json; do cat "$f"; echo; done'
    done = await workspace.exec(["/bin/sh", "-c", program], timeout_s=30.0, show_bytes=MAX_REPLY)
    found = []
    for line in done.stdout.splitlines():
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            found.append(msgspec.json.decode(line, type=ProgramCall))
    return found


def first_difference(one: Calls, two: Calls, third: Calls, fourth: Calls) -> str:
    """Describes the first call that the solution answers alike twice and the mutant differently twice."""
    for right, second, wrong, repeated in zip(one, two, third, fourth, strict=False):
        if not right.question == second.question == wrong.question == repeated.question:
            return ""  # the calls after this one are no longer the same
        if right.answer == second.answer and wrong.answer == repeated.answer != right.answer:
            return _describe(right, wrong)
    return ""


def _describe(right: ProgramCall, wrong: ProgramCall) -> str:
    call = " ".join(("the program", *right.arguments))
    if right.ok != wrong.ok:
        return f"{call}: {'succeeds' if right.ok else 'fails'}, and in the other {'succeeds' if wrong.ok else 'fails'}"
    for before, after, other in zip(right.before, right.after, wrong.after, strict=True):
        for name in sorted({*(after or {}), *(other or {})}):
            had, has, gets = ((tree or {}).get(name) for tree in (before, after, other))
            if has != gets:
                return f"{call}: {_fate(name, had, has)}, and in the other {_fate(name, had, gets)}"
    return f"{call}: prints {right.printed[:80]!r}, and in the other {wrong.printed[:80]!r}"


def _fate(name: str, before: str | None, after: str | None) -> str:
    shown = name[:120] or "it"
    if after is None:
        return f"{shown} is {'removed' if before is not None else 'not there'}"
    return f"{shown} {'stays' if before == after else 'is written'}"
