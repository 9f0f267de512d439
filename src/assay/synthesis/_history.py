"""Candidates from a repository's history: commits whose tests fail on the program before and pass on the one after.

Git runs in the sandbox, on the repository mounted read-only: its configuration, hooks and attributes are somebody
else's. Every commit is tried in the one furnished laboratory, as the difference to the newest tree: commits of one
period share tool layer, image and byte code. Left out: merges, and commits that add or remove program files.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from assay.code.batches import Job
from assay.code.source import SourceError, functions, parse
from assay.environments.interface import Backend, Mount, Workspace, WorkspaceSpec
from assay.records import digest_record

from ._archive import read_tar
from ._candidates import Candidate
from ._laboratory import Laboratory
from ._reference import stable_tests
from ._tree import SourceTree, is_test_file, keep
from .config import SynthesisConfig

__all__ = ["commit_candidates"]

MOST_FILES = 12
"""Commits that touch more files are no tasks."""
LOOKED_AT = 2000
_GIT = (
    "git", "-c", "safe.directory=*", "-c", "core.quotepath=off", "-c", "core.fsmonitor=",
    "-c", "core.hooksPath=/dev/null", "-C", "/repository",
)  # fmt: skip
_ENV = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/tmp", "GIT_OPTIONAL_LOCKS": "0"}


class Commit(NamedTuple):
    """A commit that may become a task."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]


async def commit_candidates(
    tree: SourceTree, laboratory: Laboratory, backend: Backend, config: SynthesisConfig
) -> tuple[Candidate, ...]:
    """Commits of the repository, the newest first, with the tests that pass on them; empty where there is none."""
    if tree.repository is None or "commit" not in config.kinds:
        return ()
    mounts = (Mount(str(tree.repository), "/repository"),)
    workspace = await backend.open(WorkspaceSpec(mounts=mounts, workdir="/tmp", env=_ENV))
    try:
        log = await workspace.exec(
            [*_GIT, "log", "--no-merges", f"-n{LOOKED_AT}", "--no-renames", "--format=%x01%H", "--name-status"],
            show_bytes=16 * 1024 * 1024,
        )
        found = []
        for commit in _commits(tree, log.stdout if log.exit_code == 0 else ""):
            one = await _candidate(tree, workspace, commit)
            if one is not None:
                found.append(one)
            if len(found) >= 3 * config.count:
                break
    finally:
        await workspace.close()
    return await _with_reference(found, laboratory, config)


def _commits(tree: SourceTree, log: str) -> Iterator[Commit]:
    for block in log.split("\x01")[1:]:
        name, *lines = [line for line in block.splitlines() if line.strip()]
        changed = [line.split("\t", 1) for line in lines if "\t" in line]
        if not changed or len(changed) > MOST_FILES or not name.isalnum():
            continue
        tests = tuple(path for kind, path in changed if is_test_file(path) and kind in ("M", "A"))
        modules = [(kind, path) for kind, path in changed if _is_module(tree, path)]
        if tests and modules and all(kind == "M" for kind, _ in modules):
            yield Commit(name, tuple(path for _, path in modules), tests)


def _is_module(tree: SourceTree, path: str) -> bool:
    inside = any(path == package or path.startswith(package + "/") for package in tree.packages)
    return inside and path.endswith(".py") and not is_test_file(path) and "/tests/" not in path


async def _candidate(tree: SourceTree, workspace: Workspace, commit: Commit) -> Candidate | None:
    after = await _files(workspace, commit.name)
    before = await _files(workspace, f"{commit.name}~1")
    try:
        base: dict[str, str | None] = {
            path: data.decode() for path, data in after.items() if tree.files.get(path) != data
        }
        base |= dict.fromkeys(set(tree.files) - set(after))
        changes = {path: before[path].decode() for path in commit.modules}
    except (KeyError, UnicodeDecodeError):
        return None
    lines = [(path, n) for path in commit.modules for n in _changed(after[path].decode(), changes[path])]
    return Candidate(
        digest=digest_record([tree.digest, "commit", commit.name, changes]).partition(":")[2][:16],
        kind="commit",
        changes=changes,
        operators=(f"commit {commit.name[:12]}",),
        functions=tuple(sorted(_touched(after, lines))),
        lines=tuple(sorted(lines)),
        tests=commit.tests,
        base=base,
    )


async def _files(workspace: Workspace, name: str) -> dict[str, bytes]:
    made = await workspace.exec([*_GIT, "archive", "--format=tar", "--output=/tmp/tree.tar", name])
    if made.exit_code != 0:
        return {}
    return keep(read_tar(await workspace.read("/tmp/tree.tar", limit=256 * 1024 * 1024), f"commit {name}"))


def _changed(right: str, broken: str) -> Iterator[int]:
    """The lines of the right text that the broken one has otherwise."""
    matcher = difflib.SequenceMatcher(None, right.splitlines(), broken.splitlines(), autojunk=False)
    for kind, first, last, _, _ in matcher.get_opcodes():
        if kind != "equal":
            yield from range(first + 1, max(last, first + 1) + 1)


def _touched(files: dict[str, bytes], lines: Iterable[tuple[str, int]]) -> set[str]:
    found = set()
    for path, line in lines:
        try:
            inside = [f for f in functions(parse(files[path].decode())) if f.line <= line <= f.end_line]
        except SourceError:
            inside = []
        found.add(f"{path}::{inside[-1].name if inside else ''}")
    return found


async def _with_reference(
    found: list[Candidate], laboratory: Laboratory, config: SynthesisConfig
) -> tuple[Candidate, ...]:
    """Each commit with the tests that pass on it every time; without those that have none."""
    runs = []
    for repetition in range(max(2, config.repetitions)):
        jobs = [Job(c.digest, c.tests, write=c.base, cpu_s=config.run_cpu_s * 3) for c in found]
        done = await laboratory.run(jobs, repetition=repetition)
        runs.append({name: result.tests for name, result in done.items() if result.ended == "done"})
    kept = []
    for one in found:
        stable = stable_tests([run.get(one.digest, {}) for run in runs], config.test_cpu_s)
        if stable.passing:
            tests = tuple(sorted(stable.passing))
            kept.append(msgspec.structs.replace(one, passing=stable.passing, cases=stable.cases, tests=tests))
    return tuple(kept)
