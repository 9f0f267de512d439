"""Finds candidates in a repository's history: commits whose tests fail before the change and pass after it.

Every commit is tried in the one furnished laboratory, as the difference to the newest tree: all commits share tool
layer, image and byte code; a commit whose tests fail there belongs to another period. A commit's unbroken tree is the
commit's own, with all other files (change logs, documents, packaging) as they were before, because they may
describe the fix. Left out: merges, and commits that add or remove program files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from assay.code.batches import Job, JobResult
from assay.code.source import FunctionInfo, SourceError, functions, parse
from assay.environments.interface import Backend
from assay.records import digest_record

from ._archive import find_file_and_folder
from ._candidates import TaskCandidate
from ._gates import GateOutcome
from ._git import Commit, GitReader, UnreadableError
from ._journal import Journal
from ._laboratory import Laboratory
from ._parts import diff_hunks
from ._progress import Progress, ignore_progress
from ._reference import FILE_CPU_S, find_stable_tests, own_tests
from ._tree import SourceTree, is_test_file, select_source_files
from .config import SynthesisConfig

MOST_FILES = 12
"""Maximum number of program and test files of a commit."""
MAX_COMMITS = 2000
MOST_BYTES = 1 << 20
"""Maximum length of a program file, in characters."""
BATCH_SIZE = 8
"""Commits that are measured together."""
_TEST_FOLDERS = {"test", "tests"}


class History(NamedTuple):
    """Usable and rejected commits of a repository."""

    candidates: tuple[TaskCandidate, ...]
    """Candidates, newest first, each with the tests that pass on it every time."""
    ended: tuple[tuple[TaskCandidate, GateOutcome], ...]
    """Rejected commits: their names, and the gate where they ended."""


class _CommitFiles(NamedTuple):
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    other: tuple[str, ...]


class _MeasuredCommit(msgspec.Struct, frozen=True):
    """Test results of one commit on its own tree."""

    digest: str
    passing: dict[str, float] = {}
    cases: dict[str, tuple[str, ...]] = {}
    reason: str = ""


async def find_commit_candidates(
    tree: SourceTree,
    laboratory: Laboratory,
    backend: Backend,
    config: SynthesisConfig,
    journal: Path,
    tell: Progress = ignore_progress,
) -> History:
    """Examines commits, newest first, until there are three candidates for each requested task.

    The journal stores measurements, so that a stopped run can continue. `tell` gets the number of examined commits.

    Raises:
        UserError: Git cannot read the repository.
    """
    if tree.repository is None or "commit" not in config.kinds:
        return History((), ())
    measured = Journal(journal, _MeasuredCommit)
    candidates: list[TaskCandidate] = []
    ended: list[tuple[TaskCandidate, GateOutcome]] = []
    async with GitReader(tree.repository, backend) as git:
        waiting: list[TaskCandidate] = []
        commits = await git.commits(MAX_COMMITS)
        for number, commit in enumerate(commits):
            tell("looking at the commits", number, len(commits))
            try:
                waiting.append(await _read_candidate(tree, git, commit))
            except UnreadableError as exc:
                ended.append((_name_candidate(commit.name), GateOutcome(commit.name, "history", str(exc)[:300])))
            if len(waiting) == BATCH_SIZE:
                _sort_commits(await _measure_commits(waiting, laboratory, config, measured), waiting, candidates, ended)
                waiting = []
            if len(candidates) >= 3 * config.count:
                break
        _sort_commits(await _measure_commits(waiting, laboratory, config, measured), waiting, candidates, ended)
    return History(tuple(candidates[: 3 * config.count]), tuple(ended))


def _name_candidate(name: str) -> TaskCandidate:
    return TaskCandidate(name, "commit", {}, (f"commit {name[:12]}",), (), (), ())


def _sort_commits(
    measured: Mapping[str, _MeasuredCommit],
    waiting: Sequence[TaskCandidate],
    candidates: list[TaskCandidate],
    ended: list[tuple[TaskCandidate, GateOutcome]],
) -> None:
    for one in waiting:
        known = measured[one.digest]
        if known.reason:
            ended.append((one, GateOutcome(one.digest, "period", known.reason)))
            continue
        tests = tuple(sorted(known.passing))
        replaced = {"passing": known.passing, "cases": known.cases, "tests": tests}
        candidates.append(msgspec.structs.replace(one, **replaced))


def _sort_files(tree: SourceTree, commit: Commit) -> _CommitFiles:
    """Sorts the changed files into modules, tests and others. Raises `UnreadableError` if they cannot become a task."""
    tests = tuple(path for kind, path in commit.changed if is_test_file(path) and kind in ("M", "A"))
    modules = [(kind, path) for kind, path in commit.changed if _is_module(tree, path)]
    other = [p for _, p in commit.changed if not _is_module(tree, p) and not _is_test_part(p)]
    reason = ""
    if not modules or not tests:
        reason = f"it changes no {'program' if not modules else 'test'} file"
    elif any(kind != "M" for kind, _ in modules):
        reason = "it adds or removes program files"
    elif len(modules) + len(tests) > MOST_FILES:
        reason = f"it changes more than {MOST_FILES} program and test files"
    if reason:
        raise UnreadableError(reason)
    return _CommitFiles(tuple(path for _, path in modules), tests, tuple(other))


def _is_module(tree: SourceTree, path: str) -> bool:
    inside = any(path == package or path.startswith(package + "/") for package in tree.packages)
    return inside and path.endswith(".py") and not _is_test_part(path)


def _is_test_part(path: str) -> bool:
    """Returns True for test files and their support files, which stay as the commit left them."""
    parts = PurePosixPath(path)
    return is_test_file(path) or parts.name == "conftest.py" or bool(_TEST_FOLDERS & set(parts.parts[:-1]))


async def _read_candidate(tree: SourceTree, git: GitReader, commit: Commit) -> TaskCandidate:
    parts = _sort_files(tree, commit)
    after, earlier = await git.tree(commit.name), await git.tree(f"{commit.name}~1")
    after = {path: name for path, name in after.items() if path not in parts.other}
    after |= {path: earlier[path] for path in parts.other if path in earlier}
    sources = select_source_files(dict.fromkeys(after, b""), tree.name)
    after = {path: name for path, name in after.items() if path in sources}
    conflict = find_file_and_folder({*after, *tree.files})
    if conflict:
        raise UnreadableError(f"{conflict} is a file in one of the trees and a folder in the other")
    if any(path not in after or path not in earlier for path in parts.modules):
        raise UnreadableError("one of its program files is not a regular file")
    data = await git.read([*after.values(), *(earlier[path] for path in parts.modules)])
    try:
        texts = {path: data[after[path]].decode() for path in parts.modules}
        changes = {path: data[earlier[path]].decode() for path in parts.modules}
    except UnicodeDecodeError as exc:
        raise UnreadableError("one of its program files is not UTF-8") from exc
    # A binary file that changed later cannot be restored: it is removed, and tests that need it fail.
    base = {path: _decode(data[name]) for path, name in after.items() if tree.files.get(path) != data[name]}
    base |= dict.fromkeys(set(tree.files) - set(after))
    if any(len(text) > MOST_BYTES for text in (*texts.values(), *changes.values())):
        raise UnreadableError(f"one of its program files has more than {MOST_BYTES} characters")
    lines = [(path, n) for path in parts.modules for n in _changed_lines(texts[path], changes[path])]
    digest = digest_record([tree.digest, "commit", commit.name, changes, sorted(base.items())])
    return TaskCandidate(
        digest=digest.partition(":")[2][:16],
        kind="commit",
        changes=changes,
        operators=(f"commit {commit.name[:12]}",),
        functions=tuple(sorted(_changed_functions(texts, lines))),
        lines=tuple(sorted(lines)),
        tests=parts.tests,
        base=base,
    )


def _decode(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _changed_lines(right: str, broken: str) -> Iterator[int]:
    """Yields the lines of the right text that differ in the broken one."""
    for hunk in diff_hunks(right, broken):
        yield from range(hunk.first + 1, max(hunk.last, hunk.first + 1) + 1)


def _changed_functions(texts: Mapping[str, str], lines: Iterable[tuple[str, int]]) -> set[str]:
    """Returns the functions that contain the lines, as in `TaskCandidate.functions`; module level has an empty name."""
    candidates = set()
    listed: dict[str, list[FunctionInfo]] = {}
    for path, line in lines:
        if path not in listed:
            try:
                listed[path] = list(functions(parse(texts[path])))
            except SourceError:
                listed[path] = []
        inside = [f for f in listed[path] if f.line <= line <= f.end_line]
        candidates.add(f"{path}::{inside[-1].name if inside else ''}")
    return candidates


async def _measure_commits(
    wave: Sequence[TaskCandidate], laboratory: Laboratory, config: SynthesisConfig, journal: Journal[_MeasuredCommit]
) -> dict[str, _MeasuredCommit]:
    """Runs each commit's tests on its own tree, unless the journal has the results."""
    measured = {one.digest: journal.get(one.digest) for one in wave}
    fresh = [one for one in wave if measured[one.digest] is None]
    runs: list[dict[str, JobResult]] = []
    for repetition in range(max(2, config.repetitions) if fresh else 0):
        jobs = [Job(c.digest, c.tests, write=c.base, cpu_s=FILE_CPU_S) for c in fresh]
        runs.append(await laboratory.run(jobs, repetition=repetition, fresh=True))
    results = [_summarise_runs(one, [run[one.digest] for run in runs], config) for one in fresh]
    if results:
        journal.add(results)
    return {digest: one for digest, one in measured.items() if one is not None} | {one.digest: one for one in results}


def _summarise_runs(one: TaskCandidate, results: Sequence[JobResult], config: SynthesisConfig) -> _MeasuredCommit:
    failed = next((r for r in results if r.ended != "done"), None)
    if failed is not None:
        reason = "time limit" if failed.ended == "time" else "itself"
        return _MeasuredCommit(one.digest, reason=f"the run of its tests ended by {reason}")
    stable = find_stable_tests([own_tests(result.tests, one.tests) for result in results], config.test_cpu_s)
    if not stable.passing:
        problem = results[0].problems[0][-300:] if results[0].problems else "none of its tests passes every time"
        return _MeasuredCommit(one.digest, reason=problem)
    return _MeasuredCommit(one.digest, stable.passing, stable.cases)
