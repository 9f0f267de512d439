"""Compares mutants with the solution in sandboxes, without asking the verifier.

A mutant is *shown to change behaviour* by one of:
- an output that the task declares or whose name its instruction gives, and that says something else after what a format
  leaves free (layout, order of keys) is taken away;
- a visible test that ended the same way twice on the solution and ends another way, twice, on the mutant;
- the visible tests' own calls on fresh inputs: the solution answers the same twice, the mutant otherwise, twice;
- a call of a public function or an example in a docstring, twice, with the same arguments: the solution answers it the
  same way each time (it returns, or refuses by a `raise` of its own), and the mutant answers it otherwise;
- a call of a changed shell program that the verifier itself makes (`_program_calls`).

It is *shown to be the same* only by the same compiled code or the same canonical data. All else is undecided, however
much was compared. Not covered: a call that the solution accepts may still lie outside of what the instruction asks for.
Private functions show nothing: what they do differently may never be reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from assay.agents.cheats.interface import Knowledge
from assay.agents.repair import visible_tests
from assay.code.batches import Job, JobBatch, JobResult, read_reply, write_request
from assay.code.source import SourceError, compiled_identity
from assay.environments.interface import Backend, Snapshot, Workspace, WorkspaceSpec
from assay.environments.payload import FORKED_TESTS
from assay.environments.workspace.toolchain import PYTHON
from assay.records import Task
from assay.verify.calls import CallComparer, RecordRequest
from assay.verify.calls.signature_calls import (
    CALLER,
    CalledTarget,
    CallReply,
    SignatureCallRequest,
    differences,
    read_calls,
    write_calls,
)
from assay.verify.sanitise import has_tool_layer

from ._callable_functions import called_functions
from ._canonical_data import same_data
from ._changes import role_of, text_of
from ._program_calls import ProgramComparer
from .rewrites import Rewrite
from .sensitivity import MutantComparison

HOME = "/tmp/assay-bench"
BASE_CPU_S = 60.0
"""CPU seconds for the visible tests on the solution."""
FIND = "find . -maxdepth 5 ( -name test_*.py -o -name *_test.py ) -not -path */.*"
MOST_TEST_FILES = 12


async def put_files(workspace: Workspace, files: Mapping[str, tuple[bytes | None, int]]) -> None:
    """Writes files by absolute path, with their modes; None removes a file. Raises `OSError` if the user may not."""
    for path, (data, mode) in sorted(files.items()):
        if data is None:
            await workspace.exec(["rm", "-f", "--", path])
        else:
            await workspace.write(path, data, mode=mode)


class _Baseline(NamedTuple):
    outcomes: dict[str, str]
    """Outcomes of tests that end alike twice."""
    cpu_s: float


class DifferentialTester:
    """Compares mutants with the recorded solution, one at a time. An async context manager.

    The task's verifier may be run from `folder` to see which programs it calls; None: it is not run.
    """

    def __init__(
        self,
        backend: Backend,
        spec: WorkspaceSpec,
        task: Task,
        knowledge: Knowledge,
        *,
        seed: int = 0,
        folder: Path | None = None,
    ) -> None:
        self._backend = backend
        self._spec = spec
        self._task = task
        self._seed = seed
        self._folder = folder
        self._programs: ProgramComparer | None = None
        self._knowledge = knowledge
        self._solution_files = {file.path: file for file in knowledge.changed}
        self._state: Snapshot | None = None
        self._tests: tuple[str, ...] = ()
        self._baseline: _Baseline | None = None
        self._comparers: dict[tuple[CalledTarget, ...], CallComparer] = {}
        self._calls: dict[tuple[CalledTarget, ...], tuple[tuple[CallReply, ...], tuple[CallReply, ...]]] = {}

    async def __aenter__(self) -> Self:
        workspace = await self._backend.open(self._spec)
        try:
            await put_files(workspace, {path: (file.after, file.mode) for path, file in self._solution_files.items()})
            self._tests = await self._find_tests(workspace)
            self._state = await workspace.snapshot()
        finally:
            await workspace.close()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._state is not None:
            await self._backend.release(self._state)

    async def compare(self, rewrite: Rewrite) -> MutantComparison:
        """Compares a mutant with the solution. Raises `EnvironmentFailure` where a sandbox broke."""
        contents = {path: self._content(path, data) for path, data in rewrite.files.items()}
        shown = self._by_text(contents)
        if shown is not None:
            return shown
        workspace = await self._open(contents)
        try:
            by_tests = await self._by_tests(workspace)
            if by_tests.behaviour == "changed":
                return by_tests
            by_calls = await self._by_calls(workspace, contents)
        finally:
            await workspace.close()
        if by_calls.behaviour == "changed":
            return by_calls
        by_programs = await self._by_programs(contents)
        if by_programs.behaviour == "changed":
            return by_programs
        by = "visible tests and calls" if by_tests.looked and by_calls.looked else by_tests.by or by_calls.by
        return MutantComparison("undecided", by, "", by_tests.looked + by_calls.looked)

    def _content(self, path: str, data: bytes | None) -> bytes | None:
        return self._solution_files[path].before if data is None and path in self._solution_files else data

    async def _open(self, contents: Mapping[str, bytes | None]) -> Workspace:
        workspace = await self._backend.open(self._spec, state=self._state)
        modes = {path: file.mode for path, file in self._solution_files.items()}
        await put_files(workspace, {path: (data, modes.get(path, 0o644)) for path, data in contents.items()})
        return workspace

    def _by_text(self, contents: Mapping[str, bytes | None]) -> MutantComparison | None:
        """Compares code, data and outputs without running anything; None where that does not decide."""
        same = []
        for path, data in contents.items():
            after = self._solution_files[path].after if path in self._solution_files else None
            if role_of(path, after or data or b"") == "python":
                same.append(_same_code(after, data))
                continue
            same.append(data == after or (data is not None and after is not None and same_data(path, after, data)))
            if not same[-1] and role_of(path, after or data or b"") == "data" and self._is_output(path):
                return MutantComparison("changed", "output", f"{path} says something else", 1)
        if not all(same):
            return None
        kinds = {role_of(path, data or b"") for path, data in contents.items()}
        return MutantComparison("same", "compiled code" if kinds == {"python"} else "canonical data", looked=len(same))

    def _is_output(self, path: str) -> bool:
        given = self._task.instruction
        text = given if isinstance(given, str) else "\n".join(str(message.content) for message in given)
        declared = any(path == a or path.startswith(a.rstrip("/") + "/") for a in self._knowledge.artifacts)
        name = path.rpartition("/")[2]
        return declared or re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text) is not None

    async def _find_tests(self, workspace: Workspace) -> tuple[str, ...]:
        named = visible_tests(self._task)
        if not named:
            found = await workspace.exec(FIND.split(), timeout_s=20.0)
            named = tuple(sorted(line.removeprefix("./") for line in found.stdout.splitlines()))
        root = self._spec.workdir
        return tuple(t if t.startswith("/") else f"{root}/{t}" for t in named[:MOST_TEST_FILES])

    async def _by_tests(self, workspace: Workspace) -> MutantComparison:
        if not self._tests:
            return MutantComparison("undecided")
        if self._baseline is None:
            self._baseline = await self._measure()
        base = self._baseline
        if not base.outcomes:
            return MutantComparison("undecided")
        limit = min(BASE_CPU_S, 5.0 + 5 * base.cpu_s)
        first = _changed_tests(base, await self._run_tests(workspace, 0, limit))
        again = _changed_tests(base, await self._run_tests(workspace, 1, limit)) if first else {}
        both = sorted(test for test, outcome in first.items() if again.get(test) == outcome)
        if both:
            witness = f"{both[0]}: {base.outcomes[both[0]]}, and in the other {first[both[0]]}"
            return MutantComparison("changed", "visible tests", witness, len(base.outcomes))
        return MutantComparison("undecided", "visible tests", "", len(base.outcomes))

    async def _measure(self) -> _Baseline:
        workspace = await self._open({})
        try:
            runs = [await self._run_tests(workspace, seed, BASE_CPU_S) for seed in (0, 1)]
        finally:
            await workspace.close()
        one, two = (run.tests for run in runs)
        stable: dict[str, str] = {t: r.outcome for t, r in one.items() if t in two and two[t].outcome == r.outcome}
        return _Baseline(stable if all(run.ended == "done" for run in runs) else {}, max(run.cpu_s for run in runs))

    async def _run_tests(self, workspace: Workspace, seed: int, cpu_s: float) -> JobResult:
        batch = JobBatch((Job("tests", self._tests, cpu_s=cpu_s),), self._spec.workdir, self._paths(), seed=seed)
        reply = await self._run(workspace, FORKED_TESTS, write_request(batch), seed, 8 * cpu_s + 60)
        try:
            results = read_reply(reply)
        except ValueError:
            results = ()
        return results[0] if results else JobResult("tests", "died")

    async def _by_calls(self, workspace: Workspace, contents: Mapping[str, bytes | None]) -> MutantComparison:
        targets = tuple(self._targets(contents))
        if not targets:
            return MutantComparison("undecided")
        if targets not in self._calls:
            fresh = await self._open({})
            try:
                self._calls[targets] = (await self._call(fresh, targets, 0), await self._call(fresh, targets, 1))
            finally:
                await fresh.close()
        by_tests = await self._by_fresh_calls(targets, contents)
        if by_tests.behaviour == "changed":
            return by_tests
        one, again = self._calls[targets]
        seen = differences(one, again, await self._call(workspace, targets, 0))
        if seen.found:
            confirmed = differences(one, again, await self._call(workspace, targets, 1))
            both = [pair for pair in seen.found if pair in confirmed.found]
            if both:
                best = min(both, key=lambda pair: (not pair.one.example, len(pair.one.call)))
                by = "examples" if best.one.example else "calls"
                return MutantComparison("changed", by, best.describe(), seen.looked)
        return MutantComparison("undecided", "calls" if seen.looked else "", "", seen.looked)

    async def _by_fresh_calls(
        self, targets: tuple[CalledTarget, ...], contents: Mapping[str, bytes | None]
    ) -> MutantComparison:
        """Compares results of the visible tests' calls with fresh inputs."""
        named = tuple(target for target in targets if target.module)
        if (
            not (named and self._tests and has_tool_layer(self._spec))
            or self._state is None
            or None in contents.values()
        ):
            return MutantComparison("undecided")
        if targets not in self._comparers:
            request = RecordRequest(
                tests={path: (path,) for path in self._tests},
                targets={target.file: target.functions for target in named},
                packages=tuple(dict.fromkeys(f"{target.module.partition('.')[0]}." for target in named)),
                imports=tuple(target.module for target in named),
                paths=self._paths(),
                root=self._spec.workdir,
            )
            self._comparers[targets] = CallComparer(
                self._backend, self._spec, self._state, request, seed=str(self._seed).encode()
            )
        texts = {path: data for path, data in contents.items() if data is not None}
        found = await self._comparers[targets].compare(texts)
        return MutantComparison("changed" if found.witness else "undecided", "calls", found.witness, found.looked)

    async def _by_programs(self, contents: Mapping[str, bytes | None]) -> MutantComparison:
        solution_files = self._solution_files
        changed = {
            p: (data, solution_files[p].mode)
            for p, data in contents.items()
            if data is not None and p in solution_files
        }
        right = {path: (self._solution_files[path].after or b"", mode) for path, (_, mode) in changed.items()}
        if self._folder is None or self._state is None or len(self._task.checks) != 1 or len(changed) < len(contents):
            return MutantComparison("undecided")
        if self._programs is None:
            check = self._task.checks[0]
            self._programs = ProgramComparer(self._backend, self._spec, self._state, check, self._folder)
        found = await self._programs.compare(right, changed)
        return MutantComparison("changed" if found.witness else "undecided", "programs", found.witness, found.looked)

    def _targets(self, contents: Mapping[str, bytes | None]) -> Iterable[CalledTarget]:
        for path, data in sorted(contents.items()):
            after, now = (
                text_of(self._solution_files[path].after if path in self._solution_files else None),
                text_of(data),
            )
            if after is None or now is None or role_of(path, after.encode()) != "python":
                continue
            names = called_functions(after, now)
            if names:
                yield CalledTarget(path, self._module_name(path), names)

    def _module_name(self, path: str) -> str:
        """Returns the importable name of a file under the import roots; else empty."""
        for root in sorted(self._paths(), key=len, reverse=True):
            if path.startswith(root + "/"):
                inner = path.removeprefix(root + "/").removesuffix(".py").removesuffix("/__init__")
                return inner.replace("/", ".") if re.fullmatch(r"[A-Za-z_]\w*(/[A-Za-z_]\w*)*", inner) else ""
        return ""

    def _paths(self) -> tuple[str, ...]:
        given = [part.rstrip("/") for part in self._spec.env.get("PYTHONPATH", "").split(":") if part.startswith("/")]
        return tuple(dict.fromkeys([*given, self._spec.workdir]))

    async def _call(self, workspace: Workspace, targets: tuple[CalledTarget, ...], seed: int) -> tuple[CallReply, ...]:
        request = SignatureCallRequest(targets, self._paths(), self._seed)
        wall_s = 60 + 4 * request.function_s * sum(len(t.functions) + 2 for t in targets)
        reply = await self._run(workspace, (CALLER,), write_calls(request), seed, wall_s)
        try:
            return read_calls(reply)
        except ValueError:
            return ()

    async def _run(
        self, workspace: Workspace, programs: Sequence[Path], request: bytes, seed: int, wall_s: float
    ) -> bytes:
        """Runs the first of some programs in the sandbox and returns its reply; empty on failure."""
        await workspace.exec(["rm", "-rf", HOME])
        for program in programs:
            await workspace.write(f"{HOME}/{program.name}", program.read_bytes())
        await workspace.write(f"{HOME}/request.json", request)
        python = "python3" if self._spec.image.root and programs != FORKED_TESTS else PYTHON
        command = [python, f"{HOME}/{programs[0].name}", f"{HOME}/request.json", f"{HOME}/reply.json"]
        env = {"PYTHONHASHSEED": str(seed), "PYTHONDONTWRITEBYTECODE": "1"}
        await workspace.exec(command, env=env, timeout_s=wall_s)
        await workspace.kill_all()
        try:
            return await workspace.read(f"{HOME}/reply.json")
        except (OSError, ValueError):
            return b""


def _same_code(one: bytes | None, other: bytes | None) -> bool:
    if one is None or other is None:
        return one == other
    try:
        return compiled_identity(one.decode()) == compiled_identity(other.decode())
    except (SourceError, UnicodeDecodeError):
        return one == other


def _changed_tests(base: _Baseline, run: JobResult) -> dict[str, str]:
    """Returns the tests whose outcome differs from the solution's; tests cut by the time limit get `no end in time`."""
    if run.ended == "died":
        return {}
    missing = "no end in time" if run.ended == "time" else "not found"
    now = {test: run.tests[test].outcome if test in run.tests else missing for test in base.outcomes}
    return {test: outcome for test, outcome in now.items() if outcome != base.outcomes[test]}
