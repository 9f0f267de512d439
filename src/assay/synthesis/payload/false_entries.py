"""Runs deciding tests of an unrepaired package while its entry points, or functions below them, answer falsely.

    false_entries.py REQUEST REPLY

Each false answer runs in a forked child of one collection. A test that passes shows nothing about the package: the
answers of a process that repaired nothing satisfy it. Not for judging: tests can write to the reply.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FunctionType, GeneratorType
from typing import Any

import forked_tests  # type: ignore[import-not-found]  # copied beside this file
from entry_trace import changed_functions, in_session, run_items  # type: ignore[import-not-found]
from false_answers import ANSWERS, UNCHANGED, FunctionCall  # type: ignore[import-not-found]
from package_functions import FunctionPath, replace_body, static_member, unwrap  # type: ignore[import-not-found]


class CpuTimeExceededError(BaseException):
    """Raised in a test that has spent its CPU time; `except Exception` does not stop it."""


class FalseEntryPoints:
    """Hooks entry points and one edited function.

    Args:
        uses: Test to the entry points that answer falsely in it, each with the parts that may come back changed.
        answer: Returns the answer of an entry point to a call.
        edit: Returns the answer of the edited function inside entry points.
    """

    def __init__(
        self, uses: dict[str, dict[str, Any]], answer: Callable[[Any], Any], edit: Callable[[Any], Any]
    ) -> None:
        self._uses = uses
        self._answer = answer
        self._edit = edit
        self._active: frozenset[str] = frozenset()
        self._changes: dict[str, Any] = {}
        self._state: dict[str, Any] = {}
        self._shared: dict[str, Any] = {}
        self._bound: frozenset[str] = frozenset()
        self._depth = 0

    def install(self, edited: list[FunctionType]) -> None:
        """Hooks all functions. Raises `AttributeError` if an entry point does not exist."""
        names = {entry for entries in self._uses.values() for entry in entries}
        members = {entry: static_member(FunctionPath(*entry.split(":"))) for entry in sorted(names)}
        in_classes = {entry for entry in names if "." in entry.split(":")[1]}
        self._bound = frozenset(entry for entry in in_classes if not isinstance(members[entry], staticmethod))
        functions = {entry: unwrap(member) for entry, member in members.items()}
        own = {id(function) for function in functions.values()}
        for function in edited:
            if id(function) not in own:
                replace_body(function, self._edited)
        for entry, function in functions.items():
            replace_body(function, partial(self._entry, entry, any(function is one for one in edited)))

    def begin(self, test: str) -> None:
        """Starts a test, whose entry points answer falsely from now on."""
        self._changes, self._state, self._shared, self._depth = self._uses.get(test, {}), {}, {}, 0
        self._active = frozenset(self._changes)

    def _edited(self, original: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self._depth:
            return original(*args, **kwargs)
        return self._edit(FunctionCall("", original, args, kwargs, {}))

    def _entry(self, entry: str, edited: Any, original: FunctionType, args: Any, kwargs: Any) -> Any:
        if self._depth or entry not in self._active:
            return self._edited(original, args, kwargs) if edited else original(*args, **kwargs)
        answer = self._edit if edited else self._answer
        self._depth += 1
        try:
            state, changes = self._state.setdefault(entry, {}), self._changes[entry]
            call = FunctionCall(entry, original, args, kwargs, state, (), changes, self._shared, entry in self._bound)
            results = answer(call)
        finally:
            self._depth -= 1
        return self._relay(results) if isinstance(results, GeneratorType) else results

    def _relay(self, answer: Any) -> Iterator[Any]:
        """Yields what a generator yields; its body counts as inside the entry point."""
        while True:
            self._depth += 1
            try:
                item = next(answer)
            except StopIteration:
                return
            finally:
                self._depth -= 1
            yield item


class FalseAnswerRuns:
    """One job: all false answers, each over all tests of the job."""

    def __init__(self, batch: dict[str, Any], job: dict[str, Any], aside: Path) -> None:
        self._batch, self._job, self._aside = batch, job, aside
        self._edited: dict[tuple[str, int], list[FunctionType]] = {}

    def run(self, session: Any) -> dict[str, Any]:
        """Returns the tests that pass with each false answer; None if its run did not end."""
        results: dict[str, Any] = {}
        paths = {(path, line, name.rpartition(".")[2]) for path, name, line in self._job["edits"]}
        for function in changed_functions(paths) if paths else ():
            code = function.__code__
            self._edited.setdefault((code.co_filename, code.co_firstlineno), []).append(function)
        works: dict[str, Callable[[], dict[str, Any]]] = {}
        for name in self._job["answers"]:
            works[name] = partial(self._run_answer, session, name, None)
        for edit in self._job["edits"]:
            for name in self._job["edit_answers"]:
                works[f"{edit[1]} edited: {name}"] = partial(self._run_answer, session, name, edit)
        for name, work in works.items():
            result = forked_tests.in_child(self._batch, self._job, self._aside.with_suffix(".lie"), work)
            results[name] = result.get("passed")
        return {"ended": "done", "passed": results}

    def _run_answer(self, session: Any, name: str, edit: Any) -> dict[str, Any]:
        answer = ANSWERS[name] if name in ANSWERS else partial(_raise, name)
        shapes = self._job["results"]

        def with_shape(call: Any) -> Any:
            return answer(call._replace(results=shapes.get(call.entry, [])))

        edited = self._edited.get((edit[0], edit[2]), []) if edit else []
        entries = FalseEntryPoints(self._job["uses"], UNCHANGED if edit else with_shape, with_shape)
        entries.install(edited)
        signal.signal(signal.SIGVTALRM, _raise_cpu_time_exceeded)

        def begin(test: str) -> None:
            entries.begin(test)
            signal.setitimer(signal.ITIMER_VIRTUAL, self._job["test_cpu_s"])

        outcomes = run_items(session, list(session.items), begin, _stop_clock)
        return {"passed": sorted(test for test, outcome in outcomes.items() if outcome == "passed")}


def _stop_clock(_test: str) -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _raise_cpu_time_exceeded(_number: int, _frame: Any) -> None:
    raise CpuTimeExceededError


def _raise(name: str, _call: Any) -> Any:
    """Raises an exception by its name, `raise module:qualified.name`; of builtins the name alone."""
    module, _, qualified = name[len("raise ") :].rpartition(":")
    results: Any = importlib.import_module(module or "builtins")
    for part in qualified.split("."):
        results = getattr(results, part)
    error = results("refused")
    raise error


def main(request: str, reply: str) -> None:
    """Runs the jobs; each result is one line of the reply."""
    batch = json.loads(Path(request).read_bytes())
    aside = Path(reply + ".child")
    if len(batch["jobs"]) > 1:
        forked_tests.preload(batch, aside)
    with Path(reply).open("w", encoding="utf-8") as file:
        for serial, job in enumerate(batch["jobs"]):
            count = len(job["answers"]) + len(job["edits"]) * len(job["edit_answers"])
            with forked_tests.replaced_files(job.get("write", {}), serial):
                wide = {**job, "cpu_s": (1 + count) * job["cpu_s"]}
                work = partial(in_session, batch, job, FalseAnswerRuns(batch, job, aside).run)
                result = forked_tests.in_child(batch, wide, aside, work)
            file.write(json.dumps(result) + "\n")
            file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:3])
