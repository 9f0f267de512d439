"""Control runs for passes whose tests share a process with the code under test: can a failure be observed?

The same check judges the same final state again, over copies of the task's folder in which tests have one expectation
changed (`code.altered_tests`). A right solution fails the altered tests and passes the others. A test that passed, and
passes again when altered, was not judged by what it asserts: the pass is forged. A pass is not believed where a test
that was left as it is does not pass again, or where no altered test is seen to fail.

Which tests are altered is drawn for each control run: a random half of those that can be, and in a second run the other
half. So code that forges in the first run alone, by the clock or because a test looks altered, is seen as well: it
would have to know of each single test if it is altered.

A script that runs tests without the recorded runner tells of no single test. There all that its Python programs expect
is changed: their tests, and one assertion of each program, in one control run the last. A script that passes such a run
is not believed, if it depends on those programs at all, nor is one that does not pass again as it is.

Covered: a runner, a report, a comparison or an assertion that code under test patched in the shared process, in all
runs or in some; answers read out of the test files. Not covered: code that recognises single tests, or that carries
what it knows of them from one run to the next by what the runs share (time and the kernel).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, NamedTuple

import msgspec

from assay.code.altered_tests import MOST_TEXT, alter_program, alter_tests, alterable_tests
from assay.records import Check, Evidence, Separation, Verdict, VerdictStatus
from assay.verdicts import FLAKY, HOST_BUSY, HOST_FAILED

from ._staging import staging_folder, unstage
from .interface import CheckResult
from .separation_plan import PLAN_PATH, load_plan

_SHARED_PROCESS: Separation = "same-process"
_LEFT_AS_THEY_ARE = frozenset({"environment", "solution"})
MOST_FILES = 500
LONG_S = 120.0
"""A check that took longer is given one control run, not two."""
_BROKEN = "raise SystemExit(3)\n"
FEW = 3
"""Number of altered tests in a repeated control run."""
_OF_A_SCRIPT = ("", ".sh", ".bash")
_OF_SETTINGS = (".ini", ".cfg", ".toml")
_PYTEST_COMMAND = re.compile(r"\bpy\.?test\b([^;|&)\n]*)")
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+|ENV\s+)?\w+\+?=(.*)", re.MULTILINE)
"""Options may reach the command by a variable."""
_ADDOPTS = re.compile(r"^\s*[\"']?addopts[\"']?\s*=(.*(?:\n(?![\w\[]).*)*)", re.MULTILINE)
_SHELL_NOISE = re.compile(r"\\\n|^\s*#.*$|[0-9]*>&[0-9-]|&>", re.MULTILINE)
_STOP = re.compile(
    r"(?<![^\s\"'=\[,(])(?:-[hlqsvV]*x[hlqsvV]*|--exitfirst|--maxfail|--sw|--stepwise)(?![\w-])", re.MULTILINE
)


class AlterableFile(NamedTuple):
    """A test file with tests that can be altered."""

    path: Path
    """Path in the task's folder."""
    text: str
    tests: dict[str, str]
    """The end of a test's node id to the test's name in the file."""


class ControlRun(NamedTuple):
    """One control run. Tests are named by file and test, as the end of a node id without parameters."""

    altered: frozenset[str]
    original: frozenset[str]
    """Tests that could be altered and were not."""
    result: CheckResult


def needs_altered_tests(result: CheckResult) -> bool:
    """Returns whether a pass depends on a test that ran in one process with the code under test."""
    verdict = result.verdict
    believed = verdict.status == "pass" and "literal" not in verdict.marks
    shared = _SHARED_PROCESS in (verdict.separation, *verdict.separations)
    return believed and shared and bool(_with_status(result, "passed"))


def needs_altered_programs(result: CheckResult) -> bool:
    """Returns whether a script passed beside the code under test and recorded no test."""
    verdict = result.verdict
    beside = verdict.separation in ("same-user", _SHARED_PROCESS) and not verdict.separations
    believed = verdict.status == "pass" and "literal" not in verdict.marks
    return believed and beside and not _records(result)


def choose_altered_tests(
    files: Sequence[AlterableFile], folder: Path, result: CheckResult, random: Random | None = None
) -> list[frozenset[str]]:
    """Returns the tests that each control run alters; empty if no test that passed in process can be. Two runs alter
    one half each; one suffices if the tests that must change to passing are judged apart or take long."""
    random = random or SystemRandom()
    names = sorted({name for file in files for name in file.tests} & _ends_of_passed(folder, result))
    if not names:
        return []
    random.shuffle(names)
    middle = (len(names) + random.randint(0, 1)) // 2
    verdict = result.verdict
    if verdict.separation != _SHARED_PROCESS or (verdict.duration_s or 0.0) > LONG_S:
        return [frozenset(names[: max(middle, 1)])]
    halves = [frozenset(names[:middle]), frozenset(names[middle:])]
    random.shuffle(halves)
    return halves


def _ends_of_passed(folder: Path, result: CheckResult) -> set[str]:
    """Returns the tests that passed in process, by the ends of their ids."""
    carried = _judged_apart(folder, result)
    return {_end_of(test) for test in _with_status(result, "passed") if test not in carried}


def _judged_apart(folder: Path, result: CheckResult) -> set[str]:
    plan = load_plan(folder) if set(result.verdict.separations) - {_SHARED_PROCESS} else None
    return set() if plan is None else {test.id for test in plan.tests if test.method != "in-process"}


def fewer_altered_tests(result: CheckResult, altered: frozenset[str]) -> frozenset[str] | None:
    """Returns the tests to alter instead if a control run did not end, else None: a single altered test can crash the
    runner, for example by a deep recursion, and a small sample rarely contains it."""
    told = any(item.kind == "test_report" and not item.data.get("problems") for item in result.evidence)
    return None if told or len(altered) <= FEW else frozenset(SystemRandom().sample(sorted(altered), FEW))


def control_check(folder: Path, check: Check, result: CheckResult) -> Check:
    """Returns the check for a control run: it has only the tests that ran in process."""
    carried = _judged_apart(folder, result)
    lists: dict[str, Any] = {
        name: [test for test in check.parameters[name] if test not in carried]
        for name in ("expected", "also")
        if carried and name in check.parameters
    }
    return msgspec.structs.replace(check, parameters={**check.parameters, **lists})


@contextlib.contextmanager
def altered_folder(folder: Path, files: Sequence[AlterableFile], names: frozenset[str]) -> Iterator[Path]:
    """Yields a copy of a task's folder with some tests altered and no separation plan. Raises `OSError` if it fails."""
    random = SystemRandom()
    texts = {}
    for path, text, tests in files:
        altered = alter_tests(text, random, {tests[name] for name in names & tests.keys()})
        texts[path] = text if altered is None else altered.text
    with _copy_with(folder, texts) as copy:
        yield copy


@contextlib.contextmanager
def program_folder(
    folder: Path, programs: dict[Path, str], *, last: bool = False, broken: bool = False
) -> Iterator[Path]:
    """Yields a copy of a task's folder in which the Python programs have altered expectations, or with `broken` fail at
    once. `programs` come from `find_alterable_programs`, `last` is as in `alter_program`. May raise `OSError`."""
    random = SystemRandom()
    texts = {
        path: _BROKEN if broken else alter_program(text, random, last=last) or text for path, text in programs.items()
    }
    with _copy_with(folder, texts) as copy:
        yield copy


@contextlib.contextmanager
def _copy_with(folder: Path, texts: dict[Path, str]) -> Iterator[Path]:
    """Yields a copy of a task's folder with replaced texts of some files and without a separation plan."""
    with staging_folder() as place:
        copy = place / "task"
        copy.mkdir()
        touched = {path.parts[0] for path in texts} | {Path(PLAN_PATH).parts[0]}
        for entry in folder.iterdir():
            if entry.name in touched:
                _copy_tree(entry, copy / entry.name)
            else:
                (copy / entry.name).symlink_to(entry.resolve())
        (copy / PLAN_PATH).unlink(missing_ok=True)
        for path, text in texts.items():
            _write_like(folder / path, copy / path, text)
        try:
            yield copy
        finally:
            unstage(copy)


def _copy_tree(source: Path, target: Path) -> None:
    """Copies a file or folder. Links that stay inside point to the same path in the copy; others are omitted."""
    if not source.is_dir():
        _link_or_copy(source, target)
        return
    top = source.resolve()
    for place, folders, files in os.walk(top):
        inside = target / Path(place).relative_to(top)
        inside.mkdir()
        for name in [*folders, *files]:
            path = Path(place, name)
            if path.is_symlink() and path.resolve().is_relative_to(top):
                (inside / name).symlink_to(os.path.relpath(path.resolve(), place))
            elif path.is_file() and not path.is_symlink():
                _link_or_copy(path, inside / name)
        folders[:] = [name for name in folders if name != "__pycache__" and not Path(place, name).is_symlink()]


def _link_or_copy(source: Path, target: Path) -> None:
    """Copies a file as a hard link if the file system allows it."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copyfile(source, target)
        shutil.copymode(source, target)


def _write_like(original: Path, copy: Path, text: str) -> None:
    copy.unlink(missing_ok=True)  # never through a link to the original's bytes
    copy.write_text(text, encoding="utf-8", newline="")
    shutil.copymode(original, copy)


def find_alterable_files(folder: Path) -> list[AlterableFile]:
    """Returns a task's test files in which tests can be altered, without those that share a name with another."""
    files = list(_test_files(folder))
    base_names = Counter(path.name for path in files)
    found = []
    for path in files:
        if base_names[path.name] > 1:
            continue
        try:
            text = path.read_bytes().decode()
        except (OSError, UnicodeDecodeError):
            continue
        tests = {f"{path.name}::{name}": name for name in alterable_tests(text)}
        if tests:
            found.append(AlterableFile(path.relative_to(folder), text, tests))
    return found


def find_alterable_programs(folder: Path) -> dict[Path, str]:
    """Returns the texts of a task's Python files whose expectations can be altered, by their path in its folder."""
    texts = {path.relative_to(folder): path.read_bytes().decode("utf-8", "replace") for path in _test_files(folder)}
    random = SystemRandom()
    return {path: text for path, text in texts.items() if alter_program(text, random, last=True) is not None}


def _test_files(folder: Path) -> Iterator[Path]:
    count = 0
    for top, folders, files in os.walk(folder):
        if Path(top) == folder:
            folders[:] = [name for name in folders if name not in _LEFT_AS_THEY_ARE]
        folders[:] = sorted(name for name in folders if not Path(top, name).is_symlink())
        for name in sorted(files):
            path = Path(top, name)
            if path.suffix == ".py" and path.is_file() and not path.is_symlink() and path.stat().st_size <= MOST_TEXT:
                count += 1
                if count > MOST_FILES:
                    return
                yield path


def rule_altered(
    result: CheckResult, controls: Iterable[ControlRun], prefix: str, *, whole: bool = True
) -> CheckResult:
    """Returns a pass with the verdict that follows from its control runs, which it cites as evidence.

    With `whole`, runs continue after a failed test, so each unaltered test must pass again. A script may run its own
    tests with the names of the task's, which changes of its files do not reach. Unless the check mounts the tests
    itself, a pass is therefore forged only if some altered test was observed to fail.
    """
    passed = _with_status(result, "passed")
    altered_ids, forged, failed, changed = set[str](), set[str](), set[str](), set[str]()
    controls, statuses = tuple(controls), []
    for control in controls:
        altered = {test for test in passed if _end_of(test) in control.altered}
        altered_ids |= altered
        forged |= altered & _with_status(control.result, "passed")
        failed |= altered & _with_status(control.result, "failed")
        changed |= _ends_of_changed(control, whole=whole)
        statuses.append(control.result.verdict.status)
    data = {"asked": len(altered_ids), "failed": len(failed), "passed": sorted(forged)[:50], "statuses": statuses}
    cited = Evidence(f"{prefix}altered", "audit", "altered_tests", {**data, "changed": sorted(changed)[:50]})
    if forged and (failed or result.mounts_tests):
        return _with_evidence(result._replace(verdict=_forged(result.verdict, sorted(forged))), cited)
    doubt = _host_trouble(control.result for control in controls)
    if doubt is None and not all(_is_whole(control.result) for control in controls):
        doubt = "a control run over altered tests has no complete record", "not_whole"
    if doubt is None and changed:
        doubt = f"{len(changed)} tests that passed did not pass in a second run, first {min(changed)[:200]}", FLAKY
    if doubt is None and altered_ids and not failed:
        doubt = "no test failed with a changed expectation", "not_whole"
    return _with_evidence(result, cited, doubt)


class ProgramRuns(NamedTuple):
    """The statuses of control runs of a script that recorded no test."""

    plain: VerdictStatus
    """With the task's unchanged folder."""
    last: VerdictStatus
    """With the last assertion of each of its Python programs changed, and all tests in them."""
    one: VerdictStatus
    """With any assertion of each changed, and all tests."""
    broken: VerdictStatus | None
    """With programs that fail at once; None if it was not run."""


def rule_altered_programs(
    result: CheckResult, runs: ProgramRuns, prefix: str, judged: Sequence[CheckResult] = ()
) -> CheckResult:
    """Returns a script's pass with the verdict that follows from its control runs, whose results are `judged`."""
    cited = Evidence(f"{prefix}altered", "audit", "altered_programs", runs._asdict())
    if runs.broken != "pass":  # the programs decide, and the code under test may be what they import
        result = result._replace(verdict=msgspec.structs.replace(result.verdict, separation=_SHARED_PROCESS))
    doubt = _host_trouble(judged)
    if doubt is None and runs.plain != "pass":
        doubt = f"a second run came to {runs.plain}", FLAKY
    if doubt is None and "pass" in (runs.last, runs.one) and runs.broken != "pass":
        doubt = "it passed again when what its programs expect was changed", "not_whole"
    return _with_evidence(result, cited, doubt)


def _ends_of_changed(control: ControlRun, *, whole: bool) -> set[str]:
    """Returns the unaltered tests that failed and, if runs are whole, those that did not pass, by the ends of the ids:
    parameters in brackets may differ in each run."""
    failed = {_end_of(test) for test in _with_status(control.result, "failed")}
    passed = {_end_of(test) for test in _with_status(control.result, "passed")}
    return {test for test in control.original if test in failed or (whole and test not in passed)}


def stops_early(folder: Path, check: Check) -> bool:
    """Returns whether a run of the tests may end at the first failure, by the texts of the task's author."""
    options = [" ".join(map(str, check.parameters.get("args", ())))]
    paths = (path for name in ("tests", "environment") for path in sorted((folder / name).rglob("*")))
    settings = (p for p in paths if p.suffix in (*_OF_A_SCRIPT, *_OF_SETTINGS) and p.is_file() and not p.is_symlink())
    for path in itertools.islice(settings, MOST_FILES):
        if path.stat().st_size <= MOST_TEXT:
            options += _pytest_options(path.read_bytes().decode("utf-8", "replace"), path.suffix)
    return any(_STOP.search(text) for text in options)


def _pytest_options(text: str, suffix: str) -> list[str]:
    """Returns the parts of a script or of settings that may be options of pytest; other commands have an `-x` too."""
    if suffix in _OF_SETTINGS:
        return _ADDOPTS.findall(text)
    commands = _SHELL_NOISE.sub(" ", text)
    found = _PYTEST_COMMAND.findall(commands)
    return found + _ASSIGNMENT.findall(commands) if found else []


def _host_trouble(controls: Iterable[CheckResult]) -> tuple[str, str] | None:
    """Returns the reason and mark if the host disturbed the control runs; None if it did not."""
    marks = {mark for control in controls for mark in control.verdict.marks}
    if HOST_FAILED in marks:
        return "the host failed in a control run", HOST_FAILED
    return ("the host was too busy for a control run", HOST_BUSY) if HOST_BUSY in marks else None


def _with_evidence(result: CheckResult, cited: Evidence, doubt: tuple[str, str] | None = None) -> CheckResult:
    """Returns a result that cites one more fact; a doubt (a reason and a mark) makes its pass `unknown`."""
    verdict = msgspec.structs.replace(result.verdict, evidence=(*result.verdict.evidence, cited.id))
    if doubt is not None:
        reason, marks = f"{verdict.reason}; but {doubt[0]}", tuple(sorted({*verdict.marks, doubt[1]}))
        verdict = msgspec.structs.replace(verdict, status="unknown", score=None, reason=reason, marks=marks)
    return result._replace(verdict=verdict, evidence=(*result.evidence, cited))


def _forged(verdict: Verdict, tests: list[str]) -> Verdict:
    reason = f"forged: {len(tests)} tests passed again when what they expect was changed, first {tests[0][:200]}"
    marks = tuple(sorted({*verdict.marks, "forged"}))
    return msgspec.structs.replace(verdict, status="fail", score=0.0, reason=reason, marks=marks)


def _end_of(test: str) -> str:
    """Returns a node id without folders and parameters."""
    path, _, name = test.partition("::")
    return f"{path.rsplit('/', 1)[-1]}::{name.partition('[')[0]}"


def _records(result: CheckResult) -> list[dict[str, Any]]:
    """Returns the reports of the test recorder, one for each run of tests."""
    reports = (item.data for item in result.evidence if item.kind == "test_report")
    return [report for report in reports if report.get("source") == "recorder"]


def _is_whole(result: CheckResult) -> bool:
    records = _records(result)
    return bool(records) and not any(record.get("problems") for record in records)


def _with_status(result: CheckResult, status: str) -> set[str]:
    """Returns the ids of tests with a status, by recorded runs that reached their end."""
    records = (record for record in _records(result) if not record.get("problems"))
    return {str(test["id"]) for record in records for test in record["tests"] if test["status"] == status}
