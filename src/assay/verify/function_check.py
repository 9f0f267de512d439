"""Checks made of Python functions, and the decorator `assay.check`.

A function names what it looks at by its parameters: `files`, `transcript`, `state`, `task`. It runs in a thread of the
runner and gets data; everything that it reads is recorded as evidence, so that the verdict can be looked up again.

Covered: an exception, a wrong return value or a time limit gives `error`, or `fail` where the function returns a value
on the initial state, twice (`unjudgeable`); None, which a function without `return` returns, always gives `error`; a
file that the agent did not leave gives `fail`. Nothing that the agent wrote is executed, so the grade is
`no-agent-code`, unless the function starts a command in the state (`state.run`): then what decided is not known, and
the grade is `unknown`. Not covered: a function that itself executes what it read; it runs as the runner does.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from types import CodeType
from typing import Any, NamedTuple

import msgspec

from assay.environments.interface import Change, ExecResult, Workspace
from assay.errors import CheckDefinitionError, TaskError, UserError, VerifierError
from assay.records import Check, Separation, Task, Verdict, canonical_bytes, digest_bytes
from assay.threads import LoopBridge, run_in_thread
from assay.verdicts import NO_RESULT
from assay.verify._ruling import Ruling
from assay.verify.cited_evidence import CitedEvidence, verifier_digest
from assay.verify.interface import CheckInput, CheckResult, ReadTranscript, WorldInput
from assay.verify.sanitise import opened, require_mounts

PARAMETERS = ("files", "transcript", "state", "task")
"""Names that a function may have as parameters."""
MAX_FILE_BYTES = 16 << 20
MAX_CITED = 1000
"""Files that are cited one by one."""
_WANTED = "return a bool, a score in [0, 1], or a Verdict"
MAX_EXCERPT = 2000
"""Characters of a file that its evidence shows."""


class MissingFileError(KeyError):
    """A file is absent, or is not a regular file."""


class FinalFiles(Mapping[str, str]):
    """Files of the final state, as text. Iteration yields those that the agent added or changed; any other can be read
    by its path, absolute or relative to the working directory. Reading an absent one fails the check."""

    def __init__(self, reader: _FileReader, changes: Sequence[Change]) -> None:
        self._reader = reader
        self._paths = tuple(c.path for c in changes if c.type == "file" and c.kind != "removed")

    def __getitem__(self, path: str) -> str:
        """Returns the text of a file, with undecodable bytes replaced. Raises `MissingFileError`."""
        return self.read_bytes(path).decode(errors="replace")

    def read_bytes(self, path: str) -> bytes:
        """Returns the bytes of a file, at most 16 MiB. Raises `MissingFileError`."""
        return self._reader.read(path)

    def __contains__(self, path: object) -> bool:
        """Returns whether a file can be read."""
        try:
            return isinstance(path, str) and self.read_bytes(path) is not None
        except MissingFileError:
            return False

    def __iter__(self) -> Iterator[str]:
        """Yields the absolute paths of added and changed files."""
        return iter(self._paths)

    def __len__(self) -> int:
        """Returns the number of added and changed files."""
        return len(self._paths)


class FinalState:
    """The final state: `facts` of an in-process world, `changes` and `digest` of a sandbox."""

    def __init__(
        self,
        digest: str | None,
        *,
        facts: Mapping[str, Any] | None = None,
        changes: Sequence[Change] = (),
        run: Callable[..., ExecResult] | None = None,
    ) -> None:
        self.digest = digest
        self.facts: dict[str, Any] = dict(facts or {})
        """Final facts of an in-process world; empty for a sandbox."""
        self.changes = tuple(changes)
        """Paths that differ from the initial state; empty for an in-process world."""
        self._run = run

    def run(self, command: str | Sequence[str], *, timeout_s: float = 60.0) -> ExecResult:
        """Runs a command in a fork of the final state. The verdict's grade of separation is then `unknown`."""
        if self._run is None:
            raise UserError("an in-process world runs no command: use state.facts")
        return self._run(command, timeout_s)


class _Sources(NamedTuple):
    """Everything that a function may look at, in one attempt."""

    task: Task
    transcript: ReadTranscript | None
    files: FinalFiles | None
    state: FinalState


class _FunctionRuling(NamedTuple):
    ruling: Ruling
    rewards: Mapping[str, float] = {}


class FunctionCheck:
    """Check that calls a function.

    Args:
        function: Its parameters are among `files`, `transcript`, `state` and `task`; it returns a bool, a score in
            [0, 1] or a `Verdict`. Plain, or `async def`, which runs on an event loop of its own.
        name: Name of the check; default: the function's.
        threshold: Lowest score that passes.
        timeout_s: Seconds after which the verdict is `error`.
    """

    kind = "function"
    plugin_kind = "checks"

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        threshold: float = 1.0,
        timeout_s: float = 300.0,
    ) -> None:
        self.parameters = _parameters_of(function)
        self.function = function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.threshold, self.timeout_s = threshold, timeout_s
        for option, value in (("threshold", threshold), ("timeout_s", timeout_s)):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise CheckDefinitionError(f"check {self.name!r}: {option} is {value!r:.100}; it must be a number")
        if not timeout_s > 0.0:
            raise CheckDefinitionError(f"check {self.name!r}: timeout_s is {timeout_s}; it must be above 0")
        if not 0.0 <= threshold <= 1.0:
            raise CheckDefinitionError(f"check {self.name!r}: threshold is {threshold}; it must be in [0, 1]")
        self.digest = digest_bytes(canonical_bytes([source_of(function), threshold]))
        self.__module__ = getattr(function, "__module__", None) or __name__
        self.__doc__ = getattr(function, "__doc__", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function, as it is without the decorator."""
        return self.function(*args, **kwargs)

    async def judge(self, given: CheckInput) -> CheckResult:
        """Judges the final state of a sandbox."""
        cited = CitedEvidence(given.prefix)
        require_mounts(given.backend)
        bridge = LoopBridge()
        async with contextlib.AsyncExitStack() as stack:
            fork = await stack.enter_async_context(self._opened(given))
            stack.push_async_callback(bridge.close)  # before the fork: a call under way needs it
            commands = _Commands(bridge, fork, cited, given.patience)
            state = FinalState(given.state.digest, changes=given.changes, run=commands.run)
            reader = _FileReader(bridge, fork, cited, given.spec.workdir)
            sources = _Sources(given.task, given.transcript, FinalFiles(reader, given.changes), state)
            ruling = await self._call(sources, cited, given.patience)
            reader.cite_rest()
            grade: Separation = "unknown" if commands.count else "no-agent-code"
            return self._make_result(given.check, ruling, cited, grade)

    async def judge_world(self, given: WorldInput) -> CheckResult:
        """Judges the final facts of an in-process world."""
        state = FinalState(given.digest, facts=msgspec.json.decode(canonical_bytes(given.facts)))
        sources = _Sources(given.task, given.transcript, None, state)
        cited = CitedEvidence(given.prefix)
        return self._make_result(given.check, await self._call(sources, cited), cited, "no-agent-code")

    @contextlib.asynccontextmanager
    async def _opened(self, given: CheckInput) -> AsyncIterator[Workspace | None]:
        """Opens a fork of the final state, if the function can look into it."""
        if not {"files", "state"} & set(self.parameters):
            yield None
            return
        async with opened(given.backend, given.spec, given.state) as fork:
            yield fork

    async def _call(self, sources: _Sources, cited: CitedEvidence, patience: float = 1.0) -> _FunctionRuling:
        """Calls the function; one that does not return in time gives `error`, with the mark of a time limit."""
        arguments = self._arguments(sources, cited)
        limit = asyncio.timeout(self.timeout_s * patience)
        try:
            async with limit:
                returned = await run_in_thread(f"check {self.name}", _call, self.function, arguments)
        except MissingFileError as exc:
            return _FunctionRuling(Ruling("fail", 0.0, f"{exc.args[0]}"))
        except TimeoutError:
            if not limit.expired():
                raise
            reason = f"check {self.name!r} did not return within {self.timeout_s * patience:g} s"
            return _FunctionRuling(Ruling("error", None, reason, (NO_RESULT, "time_limit")))
        return _FunctionRuling(self._rule(returned), returned.rewards if isinstance(returned, Verdict) else {})

    def _make_result(
        self, check: Check, decided: _FunctionRuling, cited: CitedEvidence, grade: Separation
    ) -> CheckResult:
        verifier = verifier_digest(self.kind, {"check": self.name}, self.digest)
        verdict = cited.make_verdict(check, verifier, decided.ruling, separation=grade, rewards=dict(decided.rewards))
        return CheckResult(verdict, tuple(cited.items))

    def _arguments(self, sources: _Sources, cited: CitedEvidence) -> dict[str, Any]:
        """Returns the arguments of the call, and cites those that are given whole."""
        arguments: dict[str, Any] = {name: getattr(sources, name) for name in self.parameters}
        if "files" in arguments and sources.files is None:
            raise TaskError(
                f"check {self.name!r} looks at files, and the in-process world of task {sources.task.id!r} has none: "
                "use state.facts"
            )
        if "transcript" in arguments:
            if sources.transcript is None:
                raise VerifierError(f"check {self.name!r} looks at the transcript, which is not at hand here")
            record = arguments["transcript"] = sources.transcript()
            seen = {"head": record.head, "length": record.length, "steps": len(record.steps)}
            cited.add("audit", "transcript", seen)
        if "state" in arguments and sources.files is None:
            cited.add("state", "facts", {"observed": sources.state.facts})
        elif "state" in arguments:
            cited.add("state", "state", {"digest": sources.state.digest, "changes": len(sources.state.changes)})
        return arguments

    def _rule(self, returned: Any) -> Ruling:
        """Returns the ruling for a returned value. Raises `CheckDefinitionError` for a value that decides nothing."""
        if returned is None:  # a fault of the function, for which no agent is blamed: no mark `no_result`
            place = f"{getattr(self.function, '__module__', '?')}.{getattr(self.function, '__qualname__', self.name)}"
            reason = (
                f"check {self.name!r}: the function {place} returned None, perhaps for want of a `return`: {_WANTED}"
            )
            return Ruling("error", None, reason)
        if isinstance(returned, Verdict):
            return Ruling(returned.status, returned.score, returned.reason, returned.marks)
        if isinstance(returned, bool):
            return Ruling("pass" if returned else "fail", float(returned), f"{self.name} returned {returned}")
        if isinstance(returned, int | float) and math.isfinite(returned) and 0.0 <= returned <= 1.0:
            passed = returned >= self.threshold
            reason = f"{self.name} returned {returned:g}; {self.threshold:g} passes"
            return Ruling("pass" if passed else "fail", float(returned), reason)
        raise CheckDefinitionError(f"check {self.name!r} returned {returned!r:.100}: {_WANTED}")


class _FileReader:
    """Reads files of a fork, and cites each content once: the first `MAX_CITED` one by one, the others by a digest."""

    def __init__(self, bridge: LoopBridge, fork: Workspace | None, cited: CitedEvidence, workdir: str) -> None:
        self._bridge, self._fork, self._cited = bridge, fork, cited
        self._workdir = workdir.rstrip("/")
        self._observed: dict[tuple[str, str], None] = {}
        """Path, and digest or problem, in the order of reading."""

    def read(self, name: str) -> bytes:
        """Returns a file's bytes. Raises `MissingFileError`."""
        return self._bridge.call(self._read, name if name.startswith("/") else f"{self._workdir}/{name}")

    async def _read(self, path: str) -> bytes:
        assert self._fork is not None
        try:
            data = await self._fork.read(path, limit=MAX_FILE_BYTES)
        except FileNotFoundError as exc:
            self._cite(path, "absent", {"problem": "absent"})
            raise MissingFileError(f"{path} is absent") from exc
        except (IsADirectoryError, PermissionError, ValueError) as exc:
            self._cite(path, str(exc)[:500], {"problem": str(exc)[:500]})
            raise MissingFileError(f"{path} cannot be read: {exc}"[:500]) from exc
        text = data[: MAX_EXCERPT * 4].decode(errors="replace")[:MAX_EXCERPT]
        digest = digest_bytes(data)
        self._cite(path, digest, {"bytes": len(data), "digest": digest, "text": text})
        return data

    def _cite(self, path: str, content: str, data: dict[str, Any]) -> None:
        if (path, content) in self._observed:
            return
        self._observed[path, content] = None
        if len(self._observed) <= MAX_CITED:
            self._cited.add("state", "file", {"path": path, **data})

    def cite_rest(self) -> None:
        """Cites the files beyond the first `MAX_CITED`, by one digest of their names and contents."""
        rest = list(self._observed)[MAX_CITED:]
        if rest:
            self._cited.add("state", "files", {"more": len(rest), "digest": digest_bytes(canonical_bytes(rest))})


class _Commands:
    def __init__(self, bridge: LoopBridge, fork: Workspace | None, cited: CitedEvidence, patience: float) -> None:
        self._bridge, self._fork, self._cited = bridge, fork, cited
        self._patience = patience
        self.count = 0

    def run(self, command: str | Sequence[str], timeout_s: float) -> ExecResult:
        return self._bridge.call(self._execute, command, timeout_s)

    async def _execute(self, command: str | Sequence[str], timeout_s: float) -> ExecResult:
        assert self._fork is not None
        self.count += 1
        result = await self._fork.exec(command, timeout_s=timeout_s * self._patience)
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        self._cited.execution(argv, self._fork.spec.workdir, result)
        return result


def check(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    threshold: float = 1.0,
    timeout_s: float = 300.0,
) -> Any:
    """Makes a check of a function: `@assay.check`, or `@assay.check(name=..., threshold=0.5)`.

    Raises:
        CheckDefinitionError: The function has a parameter that no check is given.
    """
    if function is None:
        return partial(check, name=name, threshold=threshold, timeout_s=timeout_s)
    return FunctionCheck(function, name=name, threshold=threshold, timeout_s=timeout_s)


def _call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    returned = function(**arguments)
    return asyncio.run(returned) if inspect.iscoroutine(returned) else returned


def _parameters_of(function: Any) -> tuple[str, ...]:
    """Returns the names of a function's parameters. Raises `CheckDefinitionError` for one that is not known."""
    allowed = ", ".join(PARAMETERS)
    if not callable(function) or isinstance(function, type):
        raise CheckDefinitionError(f"{function!r:.100} cannot be a check: give a function of {allowed}")
    named = getattr(function, "__name__", type(function).__name__)
    parameters = inspect.signature(function).parameters.values()
    names = tuple(p.name for p in parameters if p.default is p.empty)
    unknown = [name for name in names if name not in PARAMETERS]
    if unknown or not names or any(p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters):
        what = f"its parameter {unknown[0]!r} is not known" if unknown else "it looks at nothing"
        raise CheckDefinitionError(f"{named} cannot be a check: {what}; name parameters among {allowed}")
    return names


def source_of(target: Any) -> str:
    """Returns the text of a function, or of an object's class; the byte code, or the name, where it is not at hand."""
    if isinstance(target, partial):
        return f"{source_of(target.func)}\n{target.args} {target.keywords}"
    located = target if inspect.isroutine(target) else type(target)
    try:
        return textwrap.dedent(inspect.getsource(located))
    except (OSError, TypeError):
        code = getattr(target, "__code__", None)
        return f"{located.__module__}:{located.__qualname__}" if code is None else _code_text(code)


def _code_text(code: CodeType) -> str:
    """Returns byte code as text that is the same in every process."""
    constants = [_code_text(one) if isinstance(one, CodeType) else one for one in code.co_consts]
    shown = [sorted(map(repr, one)) if isinstance(one, frozenset) else repr(one) for one in constants]
    return repr((code.co_code, shown, code.co_names))
