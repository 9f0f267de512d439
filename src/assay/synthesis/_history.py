"""Candidates from a repository's history: commits whose tests fail on the program before and pass on the one after.

Every commit is tried in the one furnished laboratory, as the difference to the newest tree: all commits share tool
layer, image and byte code, and one whose tests do not pass there is of another period. A commit's unbroken tree is the
commit's own, with whatever else than program and tests (change logs, documents, packaging) as it was before: there the
fix is told. Left out: merges, and commits that add or remove program files.
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

from ._archive import file_and_folder
from ._candidates import Candidate
from ._gates import Outcome
from ._git import Commit, GitReader, Unreadable
from ._laboratory import Laboratory
from ._parts import hunks
from ._reference import FILE_CPU_S, stable_tests
from ._tree import SourceTree, is_test_file, keep
from .config import SynthesisConfig

__all__ = ["History", "commit_candidates"]

MOST_FILES = 12
"""Commits that change more program and test files are no tasks."""
LOOKED_AT = 2000
MOST_BYTES = 1 << 20
"""A program file that is longer is not looked at."""
WAVE = 8
"""Commits that are measured together."""
_TEST_FOLDERS = {"test", "tests"}


class History(NamedTuple):
    """What the repository's commits have come to."""

    candidates: tuple[Candidate, ...]
    """The newest first, each with the tests that pass on it every time."""
    ended: tuple[tuple[Candidate, Outcome], ...]
    """The commits that are no candidates: their names, and the gate where they ended."""


class _Parts(NamedTuple):
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    other: tuple[str, ...]


class _Measured(msgspec.Struct, frozen=True):
    """What the tests of one commit did on its own tree."""

    digest: str
    passing: dict[str, float] = {}
    cases: dict[str, tuple[str, ...]] = {}
    reason: str = ""


async def commit_candidates(
    tree: SourceTree, laboratory: Laboratory, backend: Backend, config: SynthesisConfig, journal: Path
) -> History:
    """Looks at commits, the newest first, until there are three candidates for each task wanted.

    Args:
        tree: The newest tree.
        laboratory: Where the tests are run.
        backend: Where git is run.
        config: How many, and the limits.
        journal: Keeps what was measured, so that a stopped run goes on.

    Raises:
        UserError: Git cannot read the repository.
    """
    if tree.repository is None or "commit" not in config.kinds:
        return History((), ())
    found: list[Candidate] = []
    ended: list[tuple[Candidate, Outcome]] = []
    async with GitReader(tree.repository, backend) as git:
        waiting: list[Candidate] = []
        for commit in await git.commits(LOOKED_AT):
            try:
                waiting.append(await _candidate(tree, git, commit))
            except Unreadable as exc:
                ended.append((_bare(commit.name), Outcome(commit.name, "history", str(exc)[:300])))
            if len(waiting) == WAVE:
                _sort(await _measured(waiting, laboratory, config, journal), waiting, found, ended)
                waiting = []
            if len(found) >= 3 * config.count:
                break
        _sort(await _measured(waiting, laboratory, config, journal), waiting, found, ended)
    return History(tuple(found[: 3 * config.count]), tuple(ended))


def _bare(name: str) -> Candidate:
    return Candidate(name, "commit", {}, (f"commit {name[:12]}",), (), (), ())


def _sort(
    measured: Mapping[str, _Measured],
    waiting: Sequence[Candidate],
    found: list[Candidate],
    ended: list[tuple[Candidate, Outcome]],
) -> None:
    for one in waiting:
        known = measured[one.digest]
        if known.reason:
            ended.append((one, Outcome(one.digest, "period", known.reason)))
            continue
        tests = tuple(sorted(known.passing))
        replaced = {"passing": known.passing, "cases": known.cases, "tests": tests}
        found.append(msgspec.structs.replace(one, **replaced))


def _parts(tree: SourceTree, commit: Commit) -> _Parts:
    """Sorts the changed files. Raises `Unreadable` where they make no task."""
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
        raise Unreadable(reason)
    return _Parts(tuple(path for _, path in modules), tests, tuple(other))


def _is_module(tree: SourceTree, path: str) -> bool:
    inside = any(path == package or path.startswith(package + "/") for package in tree.packages)
    return inside and path.endswith(".py") and not _is_test_part(path)


def _is_test_part(path: str) -> bool:
    """Whether it is a test or what tests use: as the commit left it, or the tests could not pass."""
    parts = PurePosixPath(path)
    return is_test_file(path) or parts.name == "conftest.py" or bool(_TEST_FOLDERS & set(parts.parts[:-1]))


async def _candidate(tree: SourceTree, git: GitReader, commit: Commit) -> Candidate:
    parts = _parts(tree, commit)
    after, earlier = await git.tree(commit.name), await git.tree(f"{commit.name}~1")
    after = {path: name for path, name in after.items() if path not in parts.other}
    after |= {path: earlier[path] for path in parts.other if path in earlier}
    kept = keep(dict.fromkeys(after, b""), tree.name)
    after = {path: name for path, name in after.items() if path in kept}
    twice = file_and_folder({*after, *tree.files})
    if twice:
        raise Unreadable(f"{twice} is a file in one of the trees and a folder in the other")
    if any(path not in after or path not in earlier for path in parts.modules):
        raise Unreadable("a program file of it is no regular file")
    data = await git.read([*after.values(), *(earlier[path] for path in parts.modules)])
    try:
        texts = {path: data[after[path]].decode() for path in parts.modules}
        changes = {path: data[earlier[path]].decode() for path in parts.modules}
    except UnicodeDecodeError as exc:
        raise Unreadable("a program file of it is not UTF-8") from exc
    # What is no text and has changed since cannot be put back: it is taken out, and tests that need it do not pass.
    base = {path: _text(data[name]) for path, name in after.items() if tree.files.get(path) != data[name]}
    base |= dict.fromkeys(set(tree.files) - set(after))
    if any(len(text) > MOST_BYTES for text in (*texts.values(), *changes.values())):
        raise Unreadable(f"a program file of it has more than {MOST_BYTES} characters")
    lines = [(path, n) for path in parts.modules for n in _changed(texts[path], changes[path])]
    digest = digest_record([tree.digest, "commit", commit.name, changes, sorted(base.items())])
    return Candidate(
        digest=digest.partition(":")[2][:16],
        kind="commit",
        changes=changes,
        operators=(f"commit {commit.name[:12]}",),
        functions=tuple(sorted(_touched(texts, lines))),
        lines=tuple(sorted(lines)),
        tests=parts.tests,
        base=base,
    )


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _changed(right: str, broken: str) -> Iterator[int]:
    """The lines of the right text that the broken one has otherwise."""
    for hunk in hunks(right, broken):
        yield from range(hunk.first + 1, max(hunk.last, hunk.first + 1) + 1)


def _touched(texts: Mapping[str, str], lines: Iterable[tuple[str, int]]) -> set[str]:
    """The functions that hold the lines, as in `Candidate.functions`; without a name for what is in none."""
    found = set()
    listed: dict[str, list[FunctionInfo]] = {}
    for path, line in lines:
        if path not in listed:
            try:
                listed[path] = list(functions(parse(texts[path])))
            except SourceError:
                listed[path] = []
        inside = [f for f in listed[path] if f.line <= line <= f.end_line]
        found.add(f"{path}::{inside[-1].name if inside else ''}")
    return found


async def _measured(
    wave: Sequence[Candidate], laboratory: Laboratory, config: SynthesisConfig, journal: Path
) -> dict[str, _Measured]:
    """What each commit's tests do on its own tree, from the journal where it is known."""
    known = _read(journal)
    fresh = [one for one in wave if one.digest not in known]
    runs: list[dict[str, JobResult]] = []
    for repetition in range(max(2, config.repetitions) if fresh else 0):
        jobs = [Job(c.digest, c.tests, write=c.base, cpu_s=FILE_CPU_S) for c in fresh]
        runs.append(await laboratory.run(jobs, repetition=repetition))
    for one in fresh:
        known[one.digest] = _of_runs(one, [run[one.digest] for run in runs], config)
    if fresh:
        journal.parent.mkdir(parents=True, exist_ok=True)
        with journal.open("ab") as file:
            file.write(b"\n" + b"\n".join(msgspec.json.encode(known[one.digest]) for one in fresh))
    return {one.digest: known[one.digest] for one in wave}


def _read(journal: Path) -> dict[str, _Measured]:
    found = {}
    for line in journal.read_bytes().splitlines() if journal.exists() else ():
        try:
            one = msgspec.json.decode(line, type=_Measured)
        except msgspec.MsgspecError:
            continue
        found[one.digest] = one
    return found


def _of_runs(one: Candidate, results: Sequence[JobResult], config: SynthesisConfig) -> _Measured:
    failed = next((r for r in results if r.ended != "done"), None)
    if failed is not None:
        reason = "time limit" if failed.ended == "time" else "itself"
        return _Measured(one.digest, reason=f"the run of its tests ended by {reason}")
    stable = stable_tests([result.tests for result in results], config.test_cpu_s)
    if not stable.passing:
        problem = results[0].problems[0][-300:] if results[0].problems else "none of its tests passes every time"
        return _Measured(one.digest, reason=problem)
    return _Measured(one.digest, stable.passing, stable.cases)
