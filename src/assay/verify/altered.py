"""A control run for passes where code under test shares a process with its tests: are failures seen at all?

The same check judges the same final state once more, over a copy of the task's folder in which each test that can be
has one expectation changed (`code.altered_tests`). Whoever solved the task fails these tests. A test that passed, and
passes again when altered, was not judged by what it asserts: the pass is forged. Where the control comes to no result,
or none of its altered tests is seen to fail, the pass is not believed.

Covered: a runner, a report, a comparison or an assertion that code under test patched in the shared process, by any
means that does not depend on which test runs; answers read out of the test files. Not covered: code that recognises
the original tests, or that forges in some runs only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

import msgspec

from assay.code.altered_tests import MOST_TEXT, alter_tests
from assay.records import Evidence, Separation, Verdict

from ._staging import unstage
from .interface import CheckResult

__all__ = ["AlteredFolder", "altered_folder", "needs_altered_tests", "rule_altered"]

_SHARED_PROCESS: frozenset[Separation] = frozenset({"same-process"})
_LEFT_AS_THEY_ARE = frozenset({"environment", "solution"})
MOST_FILES = 500


class AlteredFolder(NamedTuple):
    """A copy of a task's folder with altered tests."""

    path: Path
    tests: frozenset[str]
    """File name and test, as the end of a node id without parameters: `test_ledger.py::TestMore::test_same`."""


def needs_altered_tests(result: CheckResult) -> bool:
    """Returns whether a pass rests on tests that ran in a process with the code under test."""
    verdict = result.verdict
    believed = verdict.status == "pass" and "literal" not in verdict.marks
    return believed and verdict.separation in _SHARED_PROCESS and bool(_passed(result))


@contextlib.contextmanager
def altered_folder(folder: Path) -> Iterator[AlteredFolder | None]:
    """Gives a copy of a task's folder with altered tests, for as long as it is entered; None where none can be."""
    texts, names = _altered_texts(folder)
    if not names:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="assay-altered-") as place:
        copy = Path(place, "task")
        copy.mkdir()
        changed = {path.parts[0] for path in texts}
        for entry in folder.iterdir():
            if entry.name in changed and entry.is_dir():
                shutil.copytree(entry, copy / entry.name)
            elif entry.name not in changed:
                (copy / entry.name).symlink_to(entry.resolve())
        for path, text in texts.items():
            _write_like(folder / path, copy / path, text)
        try:
            yield AlteredFolder(copy, names)
        finally:
            unstage(copy)


def _write_like(original: Path, copy: Path, text: str) -> None:
    copy.unlink(missing_ok=True)
    copy.write_text(text, encoding="utf-8", newline="")
    shutil.copymode(original, copy)


def _altered_texts(folder: Path) -> tuple[dict[Path, str], frozenset[str]]:
    """Returns the altered files by their place in the folder, and the names of all altered tests."""
    random = SystemRandom()
    texts: dict[Path, str] = {}
    names: set[str] = set()
    files = list(_test_files(folder))
    base_names = Counter(path.name for path in files)
    for path in files:
        try:
            altered = alter_tests(path.read_bytes().decode(), random)
        except (OSError, UnicodeDecodeError):
            continue
        if altered is None:
            continue
        texts[path.relative_to(folder)] = altered.text
        if base_names[path.name] == 1:  # else a node id does not say which file it is of
            names |= {f"{path.name}::{name}" for name in altered.tests}
    return texts, frozenset(names)


def _test_files(folder: Path) -> Iterator[Path]:
    count = 0
    for top, folders, files in os.walk(folder):
        if Path(top) == folder:
            folders[:] = [name for name in folders if name not in _LEFT_AS_THEY_ARE]
        folders[:] = sorted(name for name in folders if not Path(top, name).is_symlink())
        for name in sorted(files):
            path = Path(top, name)
            if path.suffix == ".py" and not path.is_symlink() and path.stat().st_size <= MOST_TEXT:
                count += 1
                if count > MOST_FILES:
                    return
                yield path


def rule_altered(result: CheckResult, control: CheckResult, altered: Iterable[str], prefix: str) -> CheckResult:
    """Returns the result with the verdict that follows from the control, which is cited as evidence.

    Args:
        result: A pass.
        control: The same check's result over altered tests.
        altered: Names of the altered tests.
        prefix: What the ids of this check's evidence start with.
    """
    names = frozenset(altered)
    asked = {test for test in _passed(result) if _end_of(test) in names}
    if not asked:
        return result
    forged = sorted(asked & _passed(control))
    failed = asked & _failed(control)
    data = {"asked": len(asked), "failed": len(failed), "passed": forged[:50], "status": control.verdict.status}
    cited = Evidence(f"{prefix}altered", "audit", "altered_tests", data)
    verdict = msgspec.structs.replace(result.verdict, evidence=(*result.verdict.evidence, cited.id))
    if forged:
        verdict = _forged(verdict, forged)
    elif not failed:
        reason = f"{verdict.reason}; but no test was seen to fail when what it expects was changed"
        marks = tuple(sorted({*verdict.marks, "not_whole"}))
        verdict = msgspec.structs.replace(verdict, status="unknown", score=None, reason=reason, marks=marks)
    return CheckResult(verdict, (*result.evidence, cited))


def _forged(verdict: Verdict, tests: list[str]) -> Verdict:
    reason = f"forged: {len(tests)} tests passed again when what they expect was changed, first {tests[0][:200]}"
    marks = tuple(sorted({*verdict.marks, "forged"}))
    return msgspec.structs.replace(verdict, status="fail", score=0.0, reason=reason, marks=marks)


def _end_of(test: str) -> str:
    """Returns a node id without folders and parameters."""
    path, _, name = test.partition("::")
    return f"{path.rsplit('/', 1)[-1]}::{name.partition('[')[0]}"


def _passed(result: CheckResult) -> set[str]:
    return _with_status(result, {"passed"})


def _failed(result: CheckResult) -> set[str]:
    return _with_status(result, {"failed", "error"})


def _with_status(result: CheckResult, statuses: set[str]) -> set[str]:
    """Returns the ids of tests of which our own recorder told one of these."""
    found: set[str] = set()
    for item in result.evidence:
        if item.kind == "test_report" and item.data.get("source") == "recorder":
            found |= {str(test["id"]) for test in item.data["tests"] if test["status"] in statuses}
    return found
