"""Runs deciding tests of an unrepaired package while its entry points, or functions below them, answer falsely.

    false_entries.py REQUEST REPLY

False answers run in forked children of one collection. A test that passes shows nothing about the package: the
answers of a process that repaired nothing satisfy it. Not for judging: tests can write to the reply.
"""

from __future__ import annotations

import gc
import importlib
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, GeneratorType
from typing import Any, NamedTuple

import forked_tests  # type: ignore[import-not-found]  # copied beside this file, as all that follows
import loaded_package  # type: ignore[import-not-found]
from bare_items import run_items  # type: ignore[import-not-found]
from entry_trace import changed_functions, in_session, package_of  # type: ignore[import-not-found]
from false_answers import ANSWERS, UNCHANGED, FunctionCall, own_argument  # type: ignore[import-not-found]
from package_functions import FunctionPath, replace_body, static_member, unwrap  # type: ignore[import-not-found]
from repeated_answers import HonestCalls  # type: ignore[import-not-found]
from sibling_functions import answer_as, find_siblings  # type: ignore[import-not-found]

AS_ANOTHER = "as another function"
TOGETHER = 128
"""The most lies that are told in one process."""
HONEST = "unrepaired"
"""The first answer: that of the package, of which the calls of each test are noted."""


class CpuTimeExceededError(BaseException):
    """Raised in a test that has spent its CPU time; `except Exception` does not stop it."""


class FalseAnswer(NamedTuple):
    """One answer, and who gives it: all entry points, some in each test, or a function that is edited."""

    name: str
    liars: dict[str, list[str]] | None = None
    """Test to the entry points that lie in it; the others are unrepaired. None where all lie."""
    edit: Any = None
    """File, qualified name and first line."""
    sibling: int | None = None
    """Number of the function beside an entry point that answers in its place."""

    def describe_in(self, test: str) -> str:
        """Returns the lie as it is told in one test."""
        if self.edit:
            return f"{self.edit[1]} edited: {self.name}"
        return self.name if self.liars is None else f"{' and '.join(self.liars[test])} alone: {self.name}"


class FalseEntryPoints:
    """Hooks entry points once; each process that is forked then tells one lie.

    Args:
        uses: Test to its entry points, each with the types, shapes and changes of the reference's answers.
    """

    def __init__(self, uses: dict[str, dict[str, Any]]) -> None:
        self._uses = uses
        self._lie = FalseAnswer(HONEST)
        self._answer: Callable[[Any], Any] = UNCHANGED
        self._functions: dict[str, FunctionType] = {}
        self._originals: dict[int, FunctionType] = {}
        """Id of an entry point's function to a function that does what it did before."""
        self._edited_entries: frozenset[str] = frozenset()
        self._active: dict[str, dict[str, Any]] = {}
        self._liars: frozenset[str] = frozenset()
        self._state: dict[str, Any] = {}
        self._before: dict[str, Any] = {}
        self._depth = 0
        self.bound: frozenset[str] = frozenset()
        """Entry points that are called on an object or a class."""
        self.calls: dict[str, HonestCalls] = {}
        """Test to its calls, since the lie is told."""
        self._before_edits: list[tuple[FunctionType, CodeType]] = []

    def install(self) -> None:
        """Hooks the entry points. Raises `AttributeError` if one does not exist."""
        names = {entry for entries in self._uses.values() for entry in entries}
        members = {entry: static_member(FunctionPath(*entry.split(":"))) for entry in sorted(names)}
        in_classes = {entry for entry in names if "." in entry.split(":")[1]}
        self.bound = frozenset(entry for entry in in_classes if not isinstance(members[entry], staticmethod))
        self._functions = {entry: unwrap(member) for entry, member in members.items()}
        for entry, function in self._functions.items():
            self._originals[id(function)] = replace_body(function, partial(self._entry, entry))

    def tell(self, lie: FalseAnswer, answer: Callable[[Any], Any], edited: list[FunctionType]) -> None:
        """Tells a lie from now on, by the entry points that the lie names or by functions that are edited."""
        for function, code in reversed(self._before_edits):
            function.__code__ = code
        self._before_edits = []
        self._lie, self._answer = lie, answer
        own = {id(function) for function in self._functions.values()}
        for function in edited:
            if id(function) not in own:
                self._before_edits.append((function, function.__code__))
                replace_body(function, self._edited)
        changed = {id(function) for function in edited}
        self._edited_entries = frozenset(entry for entry, one in self._functions.items() if id(one) in changed)

    def repair(self) -> None:
        """Gives what the task changes the reference's code, and has everything answer as the package does."""
        self.tell(FalseAnswer(HONEST), UNCHANGED, [])
        for package in loaded_package.IN_MEMORY:
            for function, code in package.reference:
                self._originals.get(id(function), function).__code__ = code

    def begin(self, test: str) -> None:
        """Starts a test: its liars lie from now on."""
        self._active, self._state, self._before, self._depth = self._uses.get(test, {}), {}, {}, 0
        self._calls = self.calls[test] = HonestCalls()
        liars = self._active if self._lie.liars is None else self._lie.liars[test]
        self._liars = frozenset(() if self._lie.edit else liars)

    def _edited(self, original: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self._depth:
            return original(*args, **kwargs)
        return self._answer(FunctionCall("", original, args, kwargs, {}))

    def _entry(self, entry: str, original: FunctionType, args: Any, kwargs: Any) -> Any:
        edited = entry in self._edited_entries
        if self._depth or entry not in self._active:
            return self._edited(original, args, kwargs) if edited else original(*args, **kwargs)
        state = self._state.setdefault(entry, {})
        call = FunctionCall(entry, original, args, kwargs, state, before=self._before, bound=entry in self.bound)
        self._depth += 1
        try:
            is_liar = edited or entry in self._liars
            results = (self._answer if is_liar else UNCHANGED)(call._replace(**self._active[entry]))
            self._calls.add(entry, results)
        except BaseException:
            self._calls.add_raised(entry)
            raise
        finally:
            self._depth -= 1
            self._before.pop(entry, None)
            self._before[entry] = own_argument(call)
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
        self._siblings: dict[str, list[FunctionType]] = {}
        self._entries = FalseEntryPoints(job["uses"])
        self._problem: Exception | None = None
        self._together = bool(loaded_package.IN_MEMORY)
        """True if several lies are told in one process."""
        self._honest: dict[str, HonestCalls] = {}

    def run(self, session: Any) -> dict[str, Any]:
        """Returns for each test that passes under a lie the first such lie; one whose run had no end counts."""
        passed: dict[str, str] = {}
        paths = {(path, line, name.rpartition(".")[2]) for path, name, line in self._job["edits"]}
        for function in changed_functions(paths) if paths else ():
            code = function.__code__
            self._edited.setdefault((code.co_filename, code.co_firstlineno), []).append(function)
        entries = {entry for entries in self._job["uses"].values() for entry in entries}
        entries |= {self._name_of(edit) for edit in self._job["changed"]}
        self._siblings = {entry: find_siblings(entry, self._job["siblings"]) for entry in sorted(entries)}
        try:
            self._entries.install()
        except Exception as exc:  # noqa: BLE001 - each lie is then without an end, as where it is told
            self._problem = exc
        gc.collect()
        gc.freeze()  # a collection in a child would copy the memory of all that it looks at
        at, lies = 0, list_false_answers(self._job)
        while at < len(lies) and any(item.nodeid not in passed for item in session.items):
            # The first one is the package's own answer.
            refuted = self._refuted_together(session, lies[at : at + TOGETHER], passed) if at and self._together else 0
            at += refuted
            if refuted < TOGETHER and at < len(lies):
                items = self._items_of(session, lies[at], passed)
                for test in self._passed(session, items, lies[at]) if items else ():
                    passed[test] = lies[at].describe_in(test)
                at += 1
        return {"ended": "done", "passed": passed}

    def _items_of(self, session: Any, lie: FalseAnswer, passed: dict[str, str]) -> list[Any]:
        return [item for item in session.items if item.nodeid not in passed and self._is_told_in(lie, item.nodeid)]

    def _name_of(self, edit: Any) -> str:
        return f"{package_of(self._batch).module_name(edit[0])}:{edit[1]}"

    def _is_told_in(self, lie: FalseAnswer, test: str) -> bool:
        if lie.edit and lie.sibling is not None:
            return lie.sibling < len(self._siblings[self._name_of(lie.edit)])
        if lie.liars is not None and test not in lie.liars:
            return False
        uses = self._job["uses"].get(test, {})
        liars = uses if lie.liars is None else {entry: uses[entry] for entry in lie.liars[test]}
        if lie.sibling is not None and all(lie.sibling >= len(self._siblings[entry]) for entry in liars):
            return False
        honest = self._honest.get(test)
        return bool(lie.edit) or honest is None or not honest.repeats(lie.name, liars, self._entries.bound)

    def _passed(self, session: Any, items: list[Any], lie: FalseAnswer) -> list[str]:
        """Returns the tests that pass; those without an end are among them, but where a function of the package gave
        the answer: one that ends the process or waits for ever would do so in a worker."""
        work = partial(self._tell, session, items, lie)
        result = forked_tests.in_child(self._batch, self._job, self._aside.with_suffix(".lie"), work)
        if lie.name == HONEST:
            self._honest = {test: HonestCalls(kinds) for test, kinds in result.get("calls", {}).items()}
        if "passed" in result or lie.sibling is None:
            return [*result.get("passed", (item.nodeid for item in items))]
        return [test for item in items if len(items) > 1 for test in self._passed(session, [item], lie)]

    def _refuted_together(self, session: Any, lies: list[FalseAnswer], passed: dict[str, str]) -> int:
        """Tells lies in one process until a test passes; returns how many of the first ones no test passes under.

        Nothing that they left may be the reason: afterwards, in the same process, all tests pass on the reference.
        """
        if not any(self._items_of(session, lie, passed) for lie in lies):
            return len(lies)
        wide = {**self._job, "cpu_s": (1 + len(lies)) * self._job["cpu_s"]}
        work = partial(self._tell_together, session, lies, passed)
        result = forked_tests.in_child(self._batch, wide, self._aside.with_suffix(".lies"), work)
        self._together = result.get("unharmed", False)
        return int(result["refuted"]) if self._together else 0

    def _tell_together(self, session: Any, lies: list[FalseAnswer], passed: dict[str, str]) -> dict[str, Any]:
        refuted, told = 0, dict[str, Any]()
        for lie in lies:
            items, began = self._items_of(session, lie, passed), time.process_time()
            found = self._tell(session, items, lie)["passed"] if items else []
            told.update((item.nodeid, item) for item in items)
            if found or time.process_time() - began > self._job["cpu_s"]:
                break
            refuted += 1
        self._entries.repair()
        outcomes = run_items(session, list(told.values()), self._entries.begin, _stop_clock)
        return {"refuted": refuted, "unharmed": {*outcomes.values()} <= {"passed"} and outcomes.keys() == told.keys()}

    def _answer_of(self, lie: FalseAnswer) -> Callable[[Any], Any]:
        if lie.sibling is not None and lie.edit:
            sibling = self._siblings[self._name_of(lie.edit)][lie.sibling]
            return lambda call: sibling(*call.args, **call.kwargs)
        if lie.sibling is not None:
            return partial(answer_as, self._siblings, lie.sibling, UNCHANGED)
        return ANSWERS[lie.name] if lie.name in ANSWERS else partial(_raise, lie.name)

    def _tell(self, session: Any, items: list[Any], lie: FalseAnswer) -> dict[str, Any]:
        if self._problem is not None:
            raise self._problem
        liar = self._entries
        liar.tell(lie, self._answer_of(lie), self._edited.get((lie.edit[0], lie.edit[2]), []) if lie.edit else [])
        signal.signal(signal.SIGVTALRM, _raise_cpu_time_exceeded)

        def begin(test: str) -> None:
            liar.begin(test)
            signal.setitimer(signal.ITIMER_VIRTUAL, self._job["test_cpu_s"])

        outcomes = run_items(session, items, begin, _stop_clock)
        calls = {test: known.kinds for test, known in liar.calls.items()} if lie.name == HONEST else {}
        return {"passed": sorted(test for test, outcome in outcomes.items() if outcome == "passed"), "calls": calls}


def list_false_answers(job: dict[str, Any]) -> list[FalseAnswer]:
    """Returns the lies of a job in the order in which they are told."""
    return [
        *(FalseAnswer(name) for name in job["answers"]),
        *(FalseAnswer(name, liars) for liars in job["liars"] for name in job["liars_answers"]),
        *(FalseAnswer(name, edit=edit) for edit in job["edits"] for name in job["edit_answers"]),
        *(FalseAnswer(AS_ANOTHER, sibling=number) for number in range(job["siblings"])),
        *(FalseAnswer(AS_ANOTHER, edit=edit, sibling=n) for edit in job["changed"] for n in range(job["siblings"])),
        *(FalseAnswer(AS_ANOTHER, liars, sibling=n) for liars in job["liars"] for n in range(job["liars_siblings"])),
    ]


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
            with forked_tests.replaced_files(job.get("write", {}), serial):
                wide = {**job, "cpu_s": (1 + len(list_false_answers(job))) * job["cpu_s"]}
                work = partial(in_session, batch, job, FalseAnswerRuns(batch, job, aside).run)
                result = loaded_package.in_child_or_here(batch, wide, aside, work)
            file.write(json.dumps(result) + "\n")
            file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:3])
