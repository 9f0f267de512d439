"""Runs deciding tests and records the functions of the package through which each of them reaches what a task changes.

    entry_trace.py REQUEST REPLY

An *entry point* of a test is the outermost function of the package on the stack above a changed function. Each test
runs twice in forked children of one collection: first with hooks in the changed functions, which read the stack, then
with hooks in the entry points, which record arguments, answers and what was changed in place. Not for judging: the
reply is written in reach of the code under test.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import forked_tests  # type: ignore[import-not-found]  # copied beside this file, as are the next
import loaded_package  # type: ignore[import-not-found]
import pytest
from bare_items import BareOutcomes, run_items  # type: ignore[import-not-found]
from entry_records import EntryRecorder  # type: ignore[import-not-found]
from package_functions import (  # type: ignore[import-not-found]
    FunctionPath,
    Package,
    find_functions,
    is_wrapper,
    kind_of_member,
    replace_body,
    static_member,
    unwrap,
)

CALLBACK = "changed code is reached from a callback of the test"
UNREACHED = "no function of the package that can be named leads to the changed code"


class EntrySearch:
    """Hooks the changed functions; finds for each test the entry points above them."""

    def __init__(self, package: Any, changed: list[list[Any]]) -> None:
        self._package = package
        self._changed = {(path, line, name) for path, name, line in changed}
        self.entries: set[Any] = set()
        self.problems: set[str] = set()

    def install(self) -> None:
        """Hooks every changed function that is in memory."""
        for function in changed_functions(self._changed):
            replace_body(function, self._hook)

    def begin(self) -> None:
        self.entries, self.problems = set(), set()

    def result(self) -> dict[str, Any]:
        """Returns the record of one test."""
        return {"entries": sorted(f"{e.module}:{e.name}" for e in self.entries), "problems": sorted(self.problems)}

    def _hook(self, original: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        outermost, through_test = None, False
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if self._package.is_test(code.co_filename):
                through_test = True
            elif self._package.owns(code.co_filename) and not is_wrapper(frame):
                path = self._package.find_path(code)
                if path is not None:
                    if through_test and outermost is not None:
                        self.problems.add(CALLBACK)
                    outermost = path
            frame = frame.f_back
        if outermost is None:
            self.problems.add(UNREACHED)
        else:
            self.entries.add(outermost)
        return original(*args, **kwargs)


def changed_functions(changed: set[tuple[str, int, str]]) -> list[FunctionType]:
    """Returns the functions in memory that are named by file, first line and name."""
    found: list[FunctionType] = find_functions(
        lambda code: (code.co_filename, code.co_firstlineno, code.co_name) in changed, {path for path, _, _ in changed}
    )
    return found


class TestLoop:
    """The pytest plugin that hands the collected tests to some work in place of running them."""

    __test__ = False

    def __init__(self, work: Callable[[Any], dict[str, Any]]) -> None:
        self._work = work
        self.result: dict[str, Any] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        """Runs the callback once everything is collected."""
        if not session.testsfailed:
            self.result = self._work(session)
        return True


def in_session(batch: dict[str, Any], job: dict[str, Any], work: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Collects the job's tests in this process, which must end afterwards, and does the work on them."""
    forked_tests.prepare(batch)
    sys.dont_write_bytecode = True
    recorder, loop = BareOutcomes(job), TestLoop(work)
    forked_tests.start_pytest(batch, job, [recorder, loop])
    return {"id": job["id"], "problems": recorder.problems, **loop.result}


def package_of(batch: dict[str, Any]) -> Any:
    """Returns the package that a batch names."""
    return Package(batch["modules"], batch["paths"], batch["root"])


class Trace:
    """One job: what its tests reach, and with which arguments and answers."""

    def __init__(self, batch: dict[str, Any], job: dict[str, Any], aside: Path) -> None:
        self._batch, self._job, self._aside = batch, job, aside

    def run(self, session: Any) -> dict[str, Any]:
        """Runs both passes over the collected tests."""
        items = list(session.items)
        search = self._in_child("search", partial(self._search, session))
        if search.get("ended"):
            return {"ended": search["ended"]}
        entries = sorted({entry for test in search["tests"].values() for entry in test["entries"]})
        record = self._in_child("record", partial(self._record, session, entries))
        if record.get("ended"):
            return {"ended": record["ended"]}
        tests = {name: {**record["tests"].get(name, {}), **found} for name, found in search["tests"].items()}
        return {"ended": "done", "order": [item.nodeid for item in items], "entries": record["entries"], "tests": tests}

    def _in_child(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        return dict(forked_tests.in_child(self._batch, self._job, self._aside.with_suffix(f".{name}"), work))

    def _search(self, session: Any) -> dict[str, Any]:
        search = EntrySearch(package_of(self._batch), self._job["changed"])
        search.install()
        found: dict[str, Any] = {}

        def begin(_name: str) -> None:
            search.begin()

        def end(name: str) -> None:
            found[name] = search.result()

        outcomes = run_items(session, list(session.items), begin, end)
        for name, outcome in outcomes.items():
            found[name]["outcome"] = outcome
        return {"tests": found}

    def _record(self, session: Any, entries: list[str]) -> dict[str, Any]:
        package = package_of(self._batch)
        paths = {entry: FunctionPath(*entry.split(":")) for entry in entries}
        kinds = {entry: kind_of_member(path) for entry, path in paths.items()}
        functions = {entry: unwrap(static_member(path)) for entry, path in paths.items()}
        changed = {(path, line, name) for path, name, line in self._job["changed"]}
        recorder = EntryRecorder(package, functions, changed_functions(changed))
        recorder.install()
        found: dict[str, Any] = {}

        def end(name: str) -> None:
            found[name] = recorder.end()

        run_items(session, list(session.items), recorder.begin, end)
        return {"tests": found, "entries": kinds}


def main(request: str, reply: str) -> None:
    """Runs the jobs; each result is one line of the reply."""
    batch = json.loads(Path(request).read_bytes())
    aside = Path(reply + ".child")
    if len(batch["jobs"]) > 1:
        forked_tests.preload(batch, aside)
    with Path(reply).open("w", encoding="utf-8") as file:
        for serial, job in enumerate(batch["jobs"]):
            with forked_tests.replaced_files(job.get("write", {}), serial):
                trace = Trace(batch, job, aside)
                wide = {**job, "cpu_s": 3 * job["cpu_s"]}
                work = partial(in_session, batch, job, trace.run)
                result = loaded_package.in_child_or_here(batch, wide, aside, work)
            file.write(json.dumps(result) + "\n")
            file.flush()
    for leftover in aside.parent.glob(aside.name + "*"):
        os.unlink(leftover)  # noqa: PTH108 - a program on its own


if __name__ == "__main__":
    main(*sys.argv[1:3])
